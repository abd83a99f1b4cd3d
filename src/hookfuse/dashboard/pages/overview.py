"""Overview: at a glance, what is sick and whether anything waits."""

from __future__ import annotations

from typing import Any

from starlette.responses import RedirectResponse, Response

from hookfuse.dashboard.visits import Visit
from hookfuse.dashboard.words import CONDITIONS, GROUPS

_SICK = ",".join(name for name in CONDITIONS if name not in ("closed", "ramp"))
_SHOWN = "8"
REMEDIES = {
    "redis": "Bring it back; nothing is lost meanwhile. States are shown as far as the database knows them.",
    "egress": "Look at the network of this machine.",
    "sampler": "Sampled policies do not trip meanwhile; look at the log of who leads sampling.",
    "backlog": "Add workers.",
    "leader": "A process should take it within seconds; if none does, look at its log.",
}


async def show(visit: Visit) -> Response:
    if visit.owner.app_id is not None:
        # A key of one application has no view over all.
        return RedirectResponse("/dashboard/endpoints", 303)
    seen = await visit.get("overview")
    sick = await visit.get("endpoint", condition=_SICK, limit=_SHOWN)
    tiles = {group: sum(seen["conditions"].get(name, 0) for name in group.split(",")) for group in GROUPS}
    return visit.page(
        "overview.html",
        "overview",
        seen=seen,
        tiles=tiles,
        sick=sick["data"],
        more=not sick["done"],
        troubles=troubles(seen),
    )


def troubles(seen: dict[str, Any]) -> list[str]:
    """What is wrong with the service itself: why it is not ready, and each of its alerts."""
    unready = [
        f"{each.capitalize()}: {seen[each].rstrip('.')}." for each in ("database", "migrations") if seen[each] != "ok"
    ]
    return unready + [f"{says[:1].upper()}{says[1:]}. {REMEDIES[name]}" for name, says in seen["alerts"].items()]
