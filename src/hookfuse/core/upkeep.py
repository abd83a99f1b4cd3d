"""What looking after the service needs: what may be wrong, how much waits, what is sealed, which migrations it has."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Concern(StrEnum):
    """What may be wrong with the service itself, and not with an endpoint."""

    REDIS = "redis"
    """Breakers are not shared, because their store is away."""
    EGRESS = "egress"
    """Nearly every endpoint fails without a response."""
    SAMPLER = "sampler"
    """A sample is overdue."""
    BACKLOG = "backlog"
    """Deliveries that could go are late."""
    LEADER = "leader"
    """A duty is done by nobody."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits, over all applications."""

    waiting: int
    held: int
    """Of these, behind an endpoint that is stopped, or whose breaker refuses."""
    in_flight: int
    oldest_due_ms: int | None
    """When the first of those was due that could go now; None: nothing is overdue."""
    now_ms: int
    oldest_ms: int | None = None
    """When the first of those that wait was to go for the first time, held or not."""

    @property
    def age(self) -> float:
        """Seconds for which the oldest delivery has waited, held or not."""
        return 0.0 if self.oldest_ms is None else max(0, self.now_ms - self.oldest_ms) / 1000

    @property
    def lag(self) -> float:
        """Seconds by which the first delivery that could go is late."""
        return 0.0 if self.oldest_due_ms is None else max(0, self.now_ms - self.oldest_due_ms) / 1000


class Sealed(NamedTuple):
    """What is sealed of one endpoint; empty: it has none."""

    endpoint_id: str
    secret: bytes
    headers: bytes


class Applied(NamedTuple):
    """A migration that a database has."""

    number: int
    name: str
    applied_ms: int
