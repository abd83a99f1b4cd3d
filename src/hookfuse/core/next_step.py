"""When a delivery that waits goes next, as far as anyone can say."""

from __future__ import annotations

from typing import Final, NamedTuple

from hookfuse.core.bounds import milliseconds
from hookfuse.core.endpoint import Stop
from hookfuse.core.state import CLOSED, DISABLED, NOT_FORCED, OPEN, Snapshot

_STOPPED: Final = (
    (Stop.DISABLED, "endpoint_disabled"),
    (Stop.PAUSED, "endpoint_paused"),
    (Stop.APP_PAUSED, "application_paused"),
)


class NextStep(NamedTuple):
    at_ms: int | None
    """None: it has ended, it is with a worker, or it waits for someone to decide."""
    reason: str = ""
    """Why it waits, if that is not what the delivery itself says."""


def next_step(due_ms: int | None, stop: Stop, breaker: Snapshot | None) -> NextStep:
    """What becomes of a delivery that is due at this time. Without a breaker: it is plainly closed, or nobody knows.

    A time that has passed means that nothing is in its way but that a worker takes it.
    """
    if due_ms is None:
        return NextStep(None)
    for bit, reason in _STOPPED:
        if stop & bit:
            return NextStep(None, reason)
    if breaker is None or not breaker.refuses:
        return NextStep(due_ms)
    until, reason = _until(breaker)
    return NextStep(None if until is None else max(due_ms, milliseconds(until)), reason)


def _until(breaker: Snapshot) -> tuple[float | None, str]:
    if breaker.override is not NOT_FORCED:
        return breaker.override_until, "breaker_forced_open"
    if breaker.state is DISABLED:
        return breaker.probe_at, "breaker_disabled"
    if breaker.state is CLOSED:
        return breaker.throttled_until, "breaker_throttled"
    # Half open: as soon as its probes have ended.
    return breaker.probe_at if breaker.state is OPEN else 0.0, f"breaker_{breaker.state}"
