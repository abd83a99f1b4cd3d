"""What the overview is made of: differences of counters, and quantiles of a histogram."""

from __future__ import annotations

import math

import pytest

from hookfuse.app.metrics import Counted
from hookfuse.app.watch import Sample, difference, quantile

BUCKETS = [(0.01, 50), (0.1, 90), (1.0, 100), (math.inf, 100)]


@pytest.mark.parametrize(("share", "seconds"), [(0.25, 0.005), (0.5, 0.01), (0.7, 0.055), (0.95, 0.55), (1, 1.0)])
def test_quantiles(share: float, seconds: float) -> None:
    """A quantile is estimated within its bucket, as Prometheus estimates it."""
    assert quantile(BUCKETS, share) == pytest.approx(seconds)


def test_quantiles_at_the_edges() -> None:
    """Without values there is none, and beyond the last limit the limit is all that is known."""
    assert quantile([], 0.5) is None
    assert quantile([(0.1, 0), (math.inf, 0)], 0.5) is None
    assert quantile([(0.1, 0), (math.inf, 7)], 0.5) == 0.1


def test_differences() -> None:
    """What happened between two samples is what was counted more, also if there was nothing to count at first."""
    nothing = Sample(100.0, Counted(0, 0, 0, ()), 0, 0, 0)
    before = Sample(110.0, Counted(10, 12, 3, ((0.1, 10), (1.0, 15), (math.inf, 15))), 1, 0, 5)
    after = Sample(120.0, Counted(30, 32, 4, ((0.1, 30), (1.0, 36), (math.inf, 36))), 1, 1, 2)
    assert difference(nothing, before).p50 == pytest.approx(0.075)
    found = difference(before, after)
    assert (found.seconds, found.sent, found.ok, found.failed) == (10.0, 20, 20, 1)
    assert (found.opened, found.closed) == (0, 1)
