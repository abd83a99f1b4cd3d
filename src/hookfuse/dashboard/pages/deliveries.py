"""Deliveries of an application: all of them, or those that failed."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from hookfuse.dashboard.actions import ACTIONS
from hookfuse.dashboard.forms import Form
from hookfuse.dashboard.visits import Visit

_LIMIT = "50"
_FILTERS = ("state", "endpoint_id", "event_types", "since", "until", "iterator")
_INSTANTS = ("since", "until")
_TASKS = "5"


async def show(visit: Visit) -> Response:
    return await _show(visit, "deliveries", {})


async def show_failed(visit: Visit) -> Response:
    """What ended without success: out of tries, refused for good, or quarantined."""
    return await _show(visit, "failed", {"state": "failed"})


async def _show(visit: Visit, place: str, fixed: dict[str, str]) -> Response:
    apps = await visit.applications()
    chosen = _chosen(visit, apps)
    values: dict[str, Any] = {"apps": apps, "app": chosen, "asked": visit.query, "actions": ACTIONS}
    values["filtered"] = bool(_filters(visit))
    if chosen is None:
        return visit.page(f"{place}.html", place, page=None, tasks=[], endpoints=[], **values)
    asked = _filters(visit) | fixed
    query = {name: _instant(value) if name in _INSTANTS else value for name, value in asked.items()}
    at = ("app", chosen["id"])
    found = await visit.get(*at, "delivery", limit=_LIMIT, order="descending", **query)
    tasks = await visit.get(*at, "task", limit=_TASKS, order="descending")
    endpoints = await visit.get(*at, "endpoint", limit="250")
    return visit.page(f"{place}.html", place, page=found, tasks=tasks["data"], endpoints=endpoints["data"], **values)


def _filters(visit: Visit) -> dict[str, str]:
    return {name: value for name, value in visit.query.items() if name in _FILTERS}


def _chosen(visit: Visit, apps: list[Any]) -> Any:
    """The application that was asked for, or else the first; None: there is none yet."""
    wanted = visit.query.get("app")
    return next((each for each in apps if wanted in (each["id"], each["uid"])), apps[0] if apps else None)


def _instant(text: str) -> str:
    return Form({"at": [text]}).instant("at") or ""
