"""Whether a backlog drained at the ramp: never more at a time than it allows, more and more, and not at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookfuse.core.state import ramp_share
from hookfuse.demo.books import Arrival
from hookfuse.demo.watch import Missed

_CLOCKS = 0.25
"""Seconds by which our clock and the store's may differ."""
_LEAST = 0.2
"""The share of the ramp that a backlog takes at least. It takes about half; without a ramp it would be a twentieth."""


class Drained(NamedTuple):
    """Requests in flight when the first one arrived, and at the most."""

    first: int
    most: int


def check_drain(arrivals: Sequence[Arrival], closed_at: float, took: float, cap: int, ramp_ms: int) -> Drained:
    """What arrived since the breaker closed, the backlog of it within `took` seconds; raises `Missed`."""
    for each in arrivals:
        allowed = max(1, int(cap * ramp_share(int((each.at - closed_at + _CLOCKS) * 1000), ramp_ms)))
        if each.in_flight > allowed:
            raise Missed(f"{each.in_flight} requests were in flight where the ramp allows {allowed}.")
    if took < _LEAST * ramp_ms / 1000:
        raise Missed(f"The backlog came at once: all of it took {took:.2f} s, of a ramp of {ramp_ms / 1000:.1f} s.")
    first, most = arrivals[0].in_flight, max(each.in_flight for each in arrivals)
    if most <= first:
        raise Missed(f"The flow did not grow: there were never more than {most} requests in flight.")
    return Drained(first, most)
