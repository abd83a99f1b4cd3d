"""Listing what is sick costs a few commands, and the list keeps nothing that is past its time."""

from __future__ import annotations

import asyncio

import pytest
import redis

from hookfuse import AsyncBreakers, Breakers, Outcome, Policy, Streak
from hookfuse.stores.redis import RedisStore
from hookfuse.testing.redis import store_with_clock

MANY = 5_000
SHARDS = 8
ONE = Policy(trip=Streak(1), cool_off=600)


async def trip_many(url: str) -> None:
    async with AsyncBreakers(RedisStore(url, shards=SHARDS, deadline=10), policy=ONE, consistency="strict") as breakers:
        admissions = await asyncio.gather(*(breakers.admit(f"ep_{number}") for number in range(MANY)))
        await asyncio.gather(*(breakers.record(admission, Outcome.FAILURE) for admission in admissions))


def commands_sent(client: redis.Redis) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha", "hkeys"))


@pytest.fixture
def many_open(redis_url: str) -> str:
    asyncio.run(trip_many(redis_url))
    return redis_url


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_listing_many(many_open: str, face: str) -> None:
    """Five thousand open breakers are listed with one command for each shard and one for each two hundred of them."""

    def in_threads() -> list[str]:
        with Breakers(store, policy=ONE, consistency="strict") as breakers:
            return [found.key for found in breakers.unhealthy()]

    async def in_tasks() -> list[str]:
        async with AsyncBreakers(store, policy=ONE, consistency="strict") as breakers:
            return [found.key async for found in breakers.unhealthy()]

    store = RedisStore(many_open, shards=SHARDS, deadline=10)
    with redis.Redis.from_url(many_open) as client:
        client.config_resetstat()
        names = in_threads() if face == "threads" else asyncio.run(in_tasks())
        sent = commands_sent(client)
    assert sorted(names) == sorted(f"ep_{number}" for number in range(MANY))
    pages = MANY / 200 + SHARDS
    # Beginning to follow may load the indexes meanwhile, and prunes them page by page.
    assert sent <= SHARDS + 2 * pages + 4


def test_past_its_time(redis_url: str) -> None:
    """A breaker that was forgotten while nobody looked is taken from the list by the next process that loads it."""
    store, clock = store_with_clock(redis_url, shards=1)
    policy = Policy(trip=Streak(1), cool_off=30, cool_off_max=30, forget_after=60)
    with Breakers(store, policy=policy) as breakers, redis.Redis.from_url(redis_url) as client:
        breakers.catch_up()
        breakers.record(breakers.admit("old"), Outcome.FAILURE)
        clock.advance(59)
        breakers.record(breakers.admit("young"), Outcome.FAILURE)
        clock.advance(1)
        assert sorted(client.hkeys("test:v1:{0}:index")) == [b"old", b"young"]
        with Breakers(store, policy=policy) as another:
            another.catch_up()
            assert client.hkeys("test:v1:{0}:index") == [b"young"]
            assert another._session.healthy("old") is not None, "plainly closed, and nobody is asked"
            assert [found.key for found in another.unhealthy()] == ["young"]
    clock.close()
