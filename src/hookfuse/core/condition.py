"""The condition of an endpoint: what its deliveries meet, in one word, worst first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hookfuse.core.endpoint import Stop
from hookfuse.core.state import Override, Snapshot, State


class Condition(StrEnum):
    """Worst first."""

    DISABLED = "disabled"
    FORCED_OPEN = "forced_open"
    OPEN = "open"
    HALF_OPEN = "half_open"
    BLOCKED = "blocked"
    """Its address is not one that we dial."""
    HELD = "held"
    """It asked to wait."""
    FAILING = "failing"
    """Its last attempt failed; the breaker has not tripped."""
    PAUSED = "paused"
    FORCED_CLOSED = "forced_closed"
    RAMP = "ramp"
    """Closed again; its flow grows."""
    CLOSED = "closed"


WORST_FIRST = {condition: place for place, condition in enumerate(Condition)}


@dataclass(frozen=True, slots=True)
class Listed:
    """An endpoint as a list over all applications shows it."""

    id: str
    app_id: str
    app_name: str
    url: str
    description: str
    uid: str | None
    breaker_key: str | None
    stop: Stop
    disabled_reason: str
    flag: str
    failing: bool
    """Whether its last settled attempt failed."""

    @property
    def key(self) -> str:
        return f"{self.app_id}/{self.breaker_key or self.id}"


@dataclass(frozen=True, slots=True)
class EndpointFilter:
    app_id: str | None = None
    """None: all applications."""
    text: str = ""
    """A part of the URL, the description, an id or uid, or the application's name, in either case."""


@dataclass(frozen=True, slots=True)
class Census:
    """How many endpoints there are, and since when the first delivery that waits has been due, held or not."""

    endpoints: int
    oldest_due_ms: int | None


def condition_of(endpoint: Listed, seen: Snapshot | None) -> Condition:
    """`seen` is its breaker; None: plainly closed."""
    state = State.CLOSED if seen is None else seen.state
    override = Override.NONE if seen is None else seen.override
    if endpoint.stop & Stop.DISABLED:
        return Condition.DISABLED
    if override is Override.OPEN:
        return Condition.FORCED_OPEN
    if override is Override.NONE and state is not State.CLOSED:
        return Condition(state.value)
    if endpoint.flag:
        return Condition.BLOCKED
    if seen is not None and seen.throttled_until is not None:
        return Condition.HELD
    if endpoint.stop:
        return Condition.PAUSED
    if override is Override.CLOSED:
        return Condition.FORCED_CLOSED
    if endpoint.failing:
        return Condition.FAILING
    return Condition.RAMP if seen is not None and seen.share < 1 else Condition.CLOSED
