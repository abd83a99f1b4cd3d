"""Endpoints: all of them, the sickest first, found by what people remember of them."""

from __future__ import annotations

from starlette.responses import Response

from hookfuse.dashboard.visits import Visit

_LIMIT = "50"
_FILTERS = ("search", "condition", "app_id", "iterator")


async def show(visit: Visit) -> Response:
    asked = {name: value for name, value in visit.query.items() if name in _FILTERS}
    found = await visit.get("endpoint", limit=_LIMIT, **asked)
    return visit.page(
        "endpoints.html",
        "endpoints",
        page=found,
        apps=await visit.applications(),
        asked=asked,
    )
