"""Overview: at a glance, what is sick and whether anything waits."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response

from hookfuse.dashboard.visits import Visit
from hookfuse.dashboard.words import CONDITIONS, GROUPS

_SICK = ",".join(name for name in CONDITIONS if name not in ("closed", "ramp"))
_SHOWN = "8"


async def show(visit: Visit) -> Response:
    if visit.owner.app_id is not None:
        # A key of one application has no view over all.
        return RedirectResponse("/dashboard/endpoints", 303)
    seen = await visit.get("overview")
    sick = await visit.get("endpoint", condition=_SICK, limit=_SHOWN)
    tiles = {group: sum(seen["conditions"].get(name, 0) for name in group.split(",")) for group in GROUPS}
    return visit.page("overview.html", "overview", seen=seen, tiles=tiles, sick=sick["data"], more=not sick["done"])
