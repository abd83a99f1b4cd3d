"""Settings: the default policy, keys, applications, and what the process was started with."""

from __future__ import annotations

from starlette.responses import Response

from hookfuse.dashboard.actions import ACTIONS
from hookfuse.dashboard.policy_form import GROUPS, TRIP, fits, typed
from hookfuse.dashboard.visits import Visit


async def show(visit: Visit) -> Response:
    policy, profiles = await visit.get_all(("policy",), ("profile",))
    keys = await visit.try_get("key", limit="250", order="descending")
    return visit.page(
        "settings.html",
        "settings",
        policy=policy,
        typed=typed(policy["effective"]) if fits(policy["effective"]) else None,
        trip=TRIP,
        groups=GROUPS,
        profiles=profiles["data"],
        keys=None if keys is None else keys["data"],
        apps=await visit.applications(),
        settings=visit.request.app.state.settings if visit.owner.admin else (),
        actions=ACTIONS,
    )
