"""What looking after a store needs: how much waits, what is sealed, which migrations it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


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
