"""One endpoint: how it stands and why, what it did, what it was sent, and everything that can be decided about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from hookfuse.dashboard.actions import ACTIONS, Action
from hookfuse.dashboard.client import Answer, Refused
from hookfuse.dashboard.demo import receiver_of
from hookfuse.dashboard.forms import Form
from hookfuse.dashboard.policy_form import GROUPS, TRIP, fits, typed
from hookfuse.dashboard.visits import Visit

_ATTEMPTS = "15"


@dataclass(frozen=True, slots=True)
class Button:
    """An action that makes sense now, with the command that does the same."""

    action: Action
    curl: str
    primary: bool = False


async def show(visit: Visit) -> Response:
    app, id_ = visit.path["app"], visit.path["endpoint"]
    at, breaker = ("app", app, "endpoint", id_), ("app", app, "breaker", id_)
    owner, endpoint, seen, gauges, history, policy, retry, headers, stats, profiles = await visit.get_all(
        ("app", app),
        at,
        breaker,
        (*breaker, "gauges"),
        (*breaker, "history"),
        (*at, "policy"),
        (*at, "retry-schedule"),
        (*at, "headers"),
        (*at, "attempt-stats"),
        ("profile",),
    )
    # The list and this page say the same of it.
    listed = (await visit.get("endpoint", search=endpoint["id"], app_id=owner["id"]))["data"]
    row = next((each for each in listed if each["id"] == endpoint["id"]), None)
    if row is None:
        raise Refused(Answer(404, {"detail": "It was deleted just now."}))
    attempts = await visit.get("app", app, "attempt", "endpoint", id_, limit=_ATTEMPTS, with_content="false")
    return visit.page(
        "endpoint.html",
        "endpoints",
        app=owner,
        endpoint=endpoint,
        seen=seen,
        condition=row["condition"],
        gauges=gauges["data"],
        history=history,
        policy=policy,
        typed=typed(policy["effective"]) if fits(policy["effective"]) else None,
        trip=TRIP,
        groups=GROUPS,
        profiles=profiles["data"],
        retry=retry,
        headers=headers,
        stats=stats,
        attempts=attempts["data"],
        receiver=await receiver_of(visit.beside, visit.request, endpoint["id"]),
        buttons=_buttons(visit, endpoint, seen),
        actions=ACTIONS,
    )


def _buttons(visit: Visit, endpoint: dict[str, Any], seen: dict[str, Any]) -> list[Button]:
    forced, state = seen["override"] != "none", seen["state"]
    off = endpoint["disabled"] or state == "disabled"
    names = ["release"] if forced else ["enable"] if off else []
    if not forced and not off and state != "closed":
        names += ["probe", "reset"]
    names += [name for name in ("force-open", "force-closed") if not forced or not name.endswith(seen["override"])]
    names.append("resume" if endpoint["paused"] else "pause")
    names += [] if off else ["disable"]
    form = Form({"app": [visit.path["app"]], "endpoint": [endpoint["id"]]})
    sick = forced or off or state != "closed"
    return [
        Button(ACTIONS[name], visit.curl(ACTIONS[name].call(form)), primary=sick and place == 0)
        for place, name in enumerate(names)
    ]
