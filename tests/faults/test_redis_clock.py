"""No breaker stays open longer than its cool-off, whatever the clocks do."""

from __future__ import annotations

import time

from hookfuse import Breakers, Outcome, Policy, Streak
from hookfuse.stores.redis import RedisStore

COOL_OFF = 0.3
IDLE = 0.25


def test_an_idle_process_knows_the_time(redis_url: str) -> None:
    """A mirror's idea of the server's time does not fall behind while it waits for something to happen."""
    policy = Policy(trip=Streak(1), cool_off=COOL_OFF)
    with (
        Breakers(RedisStore(redis_url), policy=policy) as idle,
        Breakers(RedisStore(redis_url), policy=policy) as others,
    ):
        idle._session.catch_up()
        for number in range(6):
            others.force_open(f"forced_{number}")
            # Nothing happens, and the reader of the idle process blocks.
            time.sleep(IDLE)
            began = time.monotonic()
            others.record(others.admit(f"ep_{number}"), Outcome.FAILURE)
            idle._session.catch_up()
            while not idle.admit(f"ep_{number}").allowed:
                time.sleep(0.002)
            assert COOL_OFF * 0.9 <= time.monotonic() - began < COOL_OFF * 1.1 + IDLE / 2
