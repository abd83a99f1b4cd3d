"""One endpoint: how it stands and why, what it did, what it was sent, and everything that can be decided about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from starlette.responses import Response

from hookfuse.dashboard.actions import ACTIONS, Action
from hookfuse.dashboard.client import Answer, Refused
from hookfuse.dashboard.demo import receiver_of
from hookfuse.dashboard.forms import Form
from hookfuse.dashboard.policy_form import GROUPS, TRIP, fits, typed
from hookfuse.dashboard.visits import Visit

_ATTEMPTS = "15"
_MENDS = ("release", "enable", "probe")
_KEPT = ("disabled", "blocked", "paused", "failing")
"""Conditions that the database knows without the breaker."""
_UNAVAILABLE = 503


class Breaker(NamedTuple):
    """What is known of the breaker. Without its store, `seen` is None, and the rest is what the database has."""

    seen: dict[str, Any] | None
    gauges: list[Any]
    history: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Button:
    """An action that makes sense now, with the command that does the same."""

    action: Action
    curl: str
    primary: bool = False


async def show(visit: Visit) -> Response:
    app, id_ = visit.path["app"], visit.path["endpoint"]
    at = ("app", app, "endpoint", id_)
    owner, endpoint, policy, retry, headers, stats, profiles = await visit.get_all(
        ("app", app),
        at,
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
    breaker = await _breaker(visit, "app", app, "breaker", id_)
    return visit.page(
        "endpoint.html",
        "endpoints",
        app=owner,
        endpoint=endpoint,
        seen=breaker.seen,
        condition=row["condition"] if breaker.seen or row["condition"] in _KEPT else "unknown",
        held=row["held"],
        gauges=breaker.gauges,
        history=breaker.history,
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
        buttons=_buttons(visit, endpoint, breaker.seen),
        actions=ACTIONS,
    )


async def _breaker(visit: Visit, *at: str) -> Breaker:
    try:
        seen, gauges, history = await visit.get_all(at, (*at, "gauges"), (*at, "history"))
    except Refused as refused:
        if refused.status != _UNAVAILABLE:
            raise
        # If it is not Redis but the database that is away, this is refused, too.
        kept = await visit.get(*at, "transition")
        return Breaker(None, [], {"transitions": kept["data"], "failures": []})
    return Breaker(seen, gauges["data"], history)


def _buttons(visit: Visit, endpoint: dict[str, Any], seen: dict[str, Any] | None) -> list[Button]:
    off = endpoint["disabled"] or (seen is not None and seen["state"] == "disabled")
    names = [] if seen is None else _orders(seen, off=off)
    names.append("resume" if endpoint["paused"] else "pause")
    names += [] if off else ["disable"]
    form = Form({"app": [visit.path["app"]], "endpoint": [endpoint["id"]]})
    return [Button(ACTIONS[name], visit.curl(ACTIONS[name].call(form)), primary=name in _MENDS) for name in names]


def _orders(seen: dict[str, Any], *, off: bool) -> list[str]:
    """What can be decided over its breaker; first what mends it."""
    forced = seen["override"] != "none"
    names = ["release"] if forced else ["enable"] if off else ["probe", "reset"] if seen["state"] != "closed" else []
    return names + [
        name for name in ("force-open", "force-closed") if not forced or not name.endswith(seen["override"])
    ]
