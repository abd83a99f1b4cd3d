"""How the service does, as it looks outside, and who knows it."""

from __future__ import annotations

from typing import Protocol

from hookfuse.api.wire import Instant, Wire
from hookfuse.core.condition import Condition
from hookfuse.core.upkeep import Concern


class BreakerCountsOut(Wire):
    """Breakers by state, as in `/metrics`; `closed` are endpoints whose breaker is none of the others."""

    closed: int
    open: int
    half_open: int
    disabled: int


class WorkerOut(Wire):
    """The process that answers."""

    name: str
    """As in the list of processes."""
    in_hand: int
    """Requests in flight here."""
    slots: int
    """The most that there may be; 0: it does not deliver."""


class OverviewOut(Wire):
    at: Instant
    version: str
    ready: bool
    database: str
    """How it is, in words; as in `/readyz`."""
    migrations: str
    breakers: str
    egress: str
    degraded: bool
    """Whether something of these needs someone to look at it."""
    alerts: dict[Concern, str]
    """What is not as it should be with the service itself, and why; as in `/readyz`."""
    endpoints: int
    states: BreakerCountsOut
    conditions: dict[Condition, int]
    """Endpoints by what their deliveries meet, as the list of endpoints tells it; none: left out."""
    waiting: int
    held: int
    """Of these, behind an endpoint that is stopped, or whose breaker refuses."""
    in_flight: int
    lag_seconds: float
    oldest_due: Instant | None
    """Since when the first delivery that waits has been due, held or not."""
    span_seconds: float
    """The time that the following are of: five minutes, or since the start. They are of the processes on this port."""
    sent_per_second: float | None
    """Null: no process on this port delivers."""
    success_share: float | None
    """Of attempts that succeeded or failed; null: there were none."""
    p50_seconds: float | None
    p95_seconds: float | None
    opened: int
    """Breakers that opened in the last hour."""
    closed: int
    worker: WorkerOut


class SeriesOut(Wire):
    """The last hour, as columns of the same length, oldest first. Each row tells what happened since the one before."""

    at: list[Instant]
    sent_per_second: list[float]
    failed_per_second: list[float]
    """Attempts that failed."""
    p50_seconds: list[float | None]
    p95_seconds: list[float | None]
    opened: list[int]
    closed: list[int]
    held: list[int]


class Watch(Protocol):
    """Whoever looks after the process."""

    async def overview(self) -> OverviewOut: ...

    async def series(self) -> SeriesOut: ...
