"""The audit log: who changed what, and when."""

from __future__ import annotations

from starlette.responses import Response

from hookfuse.dashboard.visits import Visit

_LIMIT = "50"


async def show(visit: Visit) -> Response:
    """An admin sees all of it, anyone else that of an application."""
    apps = await visit.applications()
    wanted = visit.query.get("app") or (None if visit.owner.admin else apps[0]["id"] if apps else None)
    asked = {name: value for name, value in visit.query.items() if name == "iterator"}
    if wanted is None and not visit.owner.admin:
        return visit.page("audit.html", "audit", page=None, apps=apps, wanted=None, keys={})
    at = ("audit",) if wanted is None else ("app", wanted, "audit")
    found = await visit.get(*at, limit=_LIMIT, **asked)
    return visit.page("audit.html", "audit", page=found, apps=apps, wanted=wanted, keys=await _keys(visit))


async def _keys(visit: Visit) -> dict[str, str]:
    """The names of keys, for those who may know them."""
    found = await visit.try_get("key", limit="250")
    return {each["id"]: each["name"] for each in found["data"]} if found else {visit.owner.id: visit.owner.name}
