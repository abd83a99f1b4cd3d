"""A day of 50 dead endpoints that get a message a second each: attempts with a breaker, and with retries alone.

Virtual time, with the real breaker and the real retry schedule. A lane with an open breaker waits for its probe; the
probe carries the message at its head. Without a breaker every message goes through its schedule.
"""

from __future__ import annotations

import random

from benchmarks.report import Bar, say, table
from hookfuse import Breakers, Outcome, Policy
from hookfuse.core.retry import RetrySchedule
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

ENDPOINTS = 50
DAY = 86_400
FEWER = 0.95


def measure() -> tuple[str, list[Bar]]:
    say("delivery: a simulated day")
    draws = random.Random(7)
    plain = sum(_plain(RetrySchedule(), draws) for _ in range(ENDPOINTS))
    guarded = _guarded(Policy())
    fewer = 1 - guarded / plain
    rows = [["retries alone", f"{plain:,}"], ["with the default breaker", f"{guarded:,}"], ["fewer", f"{fewer:.2%}"]]
    bar = Bar(f"dead endpoints get at least {FEWER:.0%} fewer requests", f"{fewer:.2%}", fewer >= FEWER)
    return table([f"requests to {ENDPOINTS} dead endpoints in a day", "requests"], rows), [bar]


def _plain(schedule: RetrySchedule, draws: random.Random) -> int:
    made = 0
    for second in range(DAY):
        at = float(second)
        attempts = 0
        while at < DAY:
            attempts += 1
            delay_ms = schedule.delay_ms(attempts, draws.random())
            if delay_ms is None:
                break
            at += delay_ms / 1000
        made += attempts
    return made


def _guarded(policy: Policy) -> int:
    """Seconds pass; each endpoint's lane has something to send in each of them."""
    clock = ManualClock()
    made = 0
    with Breakers(MemoryStore(clock=clock), policy=policy) as breakers:
        keys = [f"ep_{number}" for number in range(ENDPOINTS)]
        blocked = dict.fromkeys(keys, 0.0)
        for _ in range(DAY):
            now = clock.now()
            for key in keys:
                if blocked[key] > now:
                    continue
                admission = breakers.admit(key)
                if admission.allowed:
                    made += 1
                    breakers.record(admission, Outcome.FAILURE, latency=0.01, error="connect")
                else:
                    blocked[key] = now + (admission.retry_after or 1)
            clock.advance(1)
    return made
