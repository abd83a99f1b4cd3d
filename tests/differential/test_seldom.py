"""Histories that random draws seldom meet, where a script once left the machine."""

from __future__ import annotations

import pytest
import redis

from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Count, Streak
from hookfuse.core.state import Order
from tests.differential.history import Action, Admit, Force, History, Moment, Oks, Record, Release
from tests.differential.replay import Scripts

NOW_MS = 1_700_000_000_000
AT_ONCE = Policy(trip=Streak(1), cool_off=0.001, jitter=0.5)
FAILS = Record("a", Outcome.FAILURE, NOW_MS, draw=0.0)


def at(after_ms: int, *actions: Action, policy: Policy = AT_ONCE, batch: bool = False) -> Moment:
    return Moment(NOW_MS + after_ms, {"a": policy, "b": policy}, actions, batch=batch)


TWO_PROBES = Policy(trip=Streak(1), cool_off=0.001, probes=2)
RAMPED = Policy(trip=Count(9), ramp=100.0)

SELDOM: dict[str, History] = {
    "a probe granted and given back in the batch that made the breaker": (
        at(0, FAILS, Admit("a", "t"), Release("a", "t"), batch=True),
    ),
    "a probe granted and ignored in the batch that made the breaker": (
        at(0, FAILS, Admit("a", "t"), Record("a", Outcome.IGNORED, NOW_MS, "t"), batch=True),
    ),
    "a probe given back while the clock is behind": (
        at(0, FAILS),
        at(10, Admit("a", "t")),
        at(5, Record("a", Outcome.IGNORED, NOW_MS + 10, "t")),
        at(20, Admit("a", "u")),
    ),
    "buffered successes while the clock is behind the closing": (
        at(0, Force("a", Order.DISABLE), policy=RAMPED),
        at(10, Force("a", Order.RESET), policy=RAMPED),
        at(5, Oks("a", NOW_MS + 10, 2), policy=RAMPED, batch=True),
        at(20, Admit("a", "t"), policy=RAMPED),
    ),
    "two probes that are told to wait, the shorter time last": (
        at(0, FAILS, policy=TWO_PROBES),
        at(10, Admit("a", "t"), policy=TWO_PROBES),
        at(10, Admit("a", "u"), policy=TWO_PROBES),
        at(11, Record("a", Outcome.throttled(30), NOW_MS + 10, "t"), policy=TWO_PROBES),
        at(12, Record("a", Outcome.throttled(5), NOW_MS + 10, "u"), policy=TWO_PROBES),
        at(6_000, Admit("a", "v"), policy=TWO_PROBES),
    ),
}


@pytest.mark.parametrize("history", SELDOM.values(), ids=SELDOM)
def test_seldom_histories(client: redis.Redis, history: History) -> None:
    """What was once different stays the same."""
    difference = Scripts(client).replay(history)
    assert difference is None, difference.what
