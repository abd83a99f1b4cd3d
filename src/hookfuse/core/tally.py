"""Outcomes of attempts, counted by endpoint and slots of ten seconds: what a sample reads instead of history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from hookfuse.core.delivery import Attempt
from hookfuse.core.window import Counts

SLOT_MS = 10_000


class Settled(Protocol):
    """What counting needs to know of a settlement."""

    @property
    def attempt(self) -> Attempt | None: ...

    @property
    def healthy(self) -> bool | None: ...

    @property
    def slow(self) -> bool: ...


class Tally(NamedTuple):
    """What one slot counts of one endpoint. Every outcome has a latency, and `latency_ms` is their sum."""

    slot_ms: int
    endpoint_id: str
    ok: int
    failed: int
    slow: int
    latency_ms: int


class Seen(NamedTuple):
    """What several slots counted of an endpoint, and which version of it there is."""

    endpoint_id: str
    version: int
    counts: Counts


class Guarded(NamedTuple):
    """Which breaker guards an endpoint, and the policy that is stored for it; None: the default."""

    endpoint_id: str
    version: int
    key: str
    policy: Mapping[str, Any] | None


def tallies(settled: Iterable[Settled], now_ms: int) -> list[Tally]:
    """A tally for each endpoint and slot, in order.

    An attempt belongs to the slot in which it began, so that what was sent before a breaker changed is never taken for
    what was sent after. What says nothing about the endpoint is not counted.
    """
    sums: dict[tuple[int, str], list[int]] = {}
    for each in settled:
        attempt, healthy = each.attempt, each.healthy
        if attempt is None or healthy is None:
            continue
        at_ms = min(attempt.at_ms, now_ms)
        place = (at_ms - at_ms % SLOT_MS, attempt.endpoint_id)
        found = sums.get(place)
        if found is None:
            found = sums[place] = [0, 0, 0, 0]
        found[0 if healthy else 1] += 1
        found[2] += each.slow
        found[3] += attempt.latency_ms
    return [Tally(*place, *sums[place]) for place in sorted(sums)]
