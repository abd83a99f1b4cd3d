"""`admit` and `record` of a key that is known to be plainly closed: nobody is asked, and nothing is forgotten."""

from __future__ import annotations

import asyncio

import redis

from hookfuse import AsyncBreakers, Breakers, Latency, Outcome, Policy, Streak
from hookfuse.core.state import State
from hookfuse.stores.redis import RedisStore

PLAIN = Policy(trip=Streak(2), cool_off=30)
TIMED = Policy(trip=Latency(mean=0.1, min_calls=2), cool_off=30)
CALLS = 200


def scripts_run(url: str) -> int:
    """How many scripts the server has run."""
    with redis.Redis.from_url(url) as client:
        found: dict[str, dict[str, int]] = client.info("commandstats")
        return sum(stats["calls"] for name, stats in found.items() if name.startswith("cmdstat_evalsha"))


def test_threads_ask_nobody(redis_url: str) -> None:
    """Hundreds of healthy calls run no script before they are flushed, and every one of them is counted."""
    with Breakers(RedisStore(redis_url), policy=PLAIN) as breakers:
        breakers.admit("ep")
        breakers.catch_up()
        before = scripts_run(redis_url)
        admissions = [breakers.admit("ep") for _ in range(CALLS)]
        assert scripts_run(redis_url) == before
        assert all(each.allowed and each.at_once for each in admissions)
        for each in admissions:
            breakers.record(each, Outcome.OK, latency=0.002)
        breakers.catch_up()
        assert breakers.inspect("ep").totals.ok == CALLS


def test_tasks_ask_nobody(redis_url: str) -> None:
    """The same for asyncio."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(redis_url), policy=PLAIN) as breakers:
            await breakers.admit("ep")
            await breakers.catch_up()
            before = scripts_run(redis_url)
            admissions = [await breakers.admit("ep") for _ in range(CALLS)]
            assert scripts_run(redis_url) == before
            assert all(each.allowed and each.at_once for each in admissions)
            for each in admissions:
                await breakers.record(each, Outcome.OK, latency=0.002)
            assert (await breakers.inspect("ep")).totals.ok == CALLS

    asyncio.run(scenario())


def test_failures_trip(redis_url: str) -> None:
    """A failure of a call that nobody was asked about is told at once, and its `record` returns the trip."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(redis_url), policy=PLAIN) as breakers:
            await breakers.admit("ep")
            await breakers.catch_up()
            first, second, late = [await breakers.admit("ep") for _ in range(3)]
            assert first.at_once
            assert await breakers.record(first, Outcome.FAILURE, latency=0.002) is None
            tripped = await breakers.record(second, Outcome.FAILURE, latency=0.002)
            assert tripped is not None
            assert tripped.after is State.OPEN
            assert not (await breakers.admit("ep")).allowed
            # It began before the trip, so it says nothing about the breaker that is open now.
            assert await breakers.record(late, Outcome.OK, latency=0.002) is None
            assert (await breakers.inspect("ep")).state is State.OPEN

    asyncio.run(scenario())


def test_latencies_are_judged(redis_url: str) -> None:
    """Where latencies may trip, slow successes do, though nobody was asked about them."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(redis_url), policy=TIMED) as breakers:
            await breakers.admit("ep")
            await breakers.catch_up()
            admissions = [await breakers.admit("ep") for _ in range(2)]
            for each in admissions:
                await breakers.record(each, Outcome.OK, latency=1.0)
            assert (await breakers.inspect("ep")).state is State.OPEN

    asyncio.run(scenario())


def test_strict_always_asks(redis_url: str) -> None:
    """A strict breaker is asked for every call, however healthy it is."""
    with Breakers(RedisStore(redis_url), policy=PLAIN, consistency="strict") as breakers:
        assert not any(breakers.admit("ep").at_once for _ in range(3))
