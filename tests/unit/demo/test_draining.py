"""What the demo calls draining at the ramp."""

from __future__ import annotations

import pytest

from hookfuse.demo.books import Arrival
from hookfuse.demo.draining import check_drain
from hookfuse.demo.watch import Missed

CAP, RAMP_MS = 10, 10_000
CLOSED_AT = 1_000.0


def at(seconds: float, in_flight: int) -> Arrival:
    return Arrival(CLOSED_AT + seconds, in_flight)


def test_a_growing_flow() -> None:
    """One at a time at first, more as the ramp allows it, and for a good part of the ramp: that is draining at it."""
    arrivals = [at(0.0, 1), at(1.0, 1), at(2.0, 2), at(5.0, 5)]
    assert check_drain(arrivals, CLOSED_AT, 5.0, CAP, RAMP_MS) == (1, 5)


@pytest.mark.parametrize(
    ("arrivals", "took", "sentence"),
    [
        ([at(0.0, 1), at(0.5, 10)], 5.0, "10 requests were in flight where the ramp allows 1"),
        ([at(0.0, 1), at(5.0, 6)], 5.0, "6 requests were in flight where the ramp allows 5"),
        ([at(0.0, 1), at(0.4, 1)], 0.4, "came at once: all of it took 0.40 s, of a ramp of 10.0 s"),
        ([at(0.0, 1), at(3.0, 1), at(9.0, 1)], 9.0, "never more than 1 requests"),
    ],
    ids=["too many", "too many later", "at once", "never more"],
)
def test_other_flows(arrivals: list[Arrival], took: float, sentence: str) -> None:
    """More than the ramp allows, all at once, and a flow that does not grow are told in a sentence."""
    with pytest.raises(Missed, match=sentence):
        check_drain(arrivals, CLOSED_AT, took, CAP, RAMP_MS)
