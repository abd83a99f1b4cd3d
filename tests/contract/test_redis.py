"""The Redis store keeps the contract of breaker stores: on Redis and Valkey, strict and with the mirror."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from hookfuse import AsyncBreakers, Breakers, Outcome, Policy, Streak
from hookfuse.stores.redis import RedisStore
from hookfuse.testing.contract import BreakerStoreContract, World
from hookfuse.testing.redis import store_with_clock


class OnRedis(BreakerStoreContract):
    consistency = "strict"

    @pytest.fixture
    def url(self, redis_url: str) -> str:
        return redis_url

    @pytest.fixture
    def world(self, url: str) -> Iterator[World]:
        store, clock = store_with_clock(url)
        yield World(store, clock, consistency=self.consistency)
        clock.close()


class TestStrict(OnRedis):
    pass


class TestMirror(OnRedis):
    consistency = "mirror"


class TestMirrorOnValkey(TestMirror):
    @pytest.fixture
    def url(self, valkey_url: str) -> str:
        return valkey_url


class TestStrictOnCluster(TestStrict):
    @pytest.fixture
    def url(self, cluster_url: str) -> str:
        return cluster_url


class TestMirrorOnCluster(TestMirror):
    @pytest.fixture
    def url(self, cluster_url: str) -> str:
        return cluster_url


class TestMirrorOnValkeyCluster(TestMirror):
    @pytest.fixture
    def url(self, valkey_cluster_url: str) -> str:
        return valkey_cluster_url


def test_any_failure_text_can_be_read(redis_url: str) -> None:
    """What an endpoint puts into an error, even other kinds of line ends, does not break what operators see."""
    with Breakers(RedisStore(redis_url), policy=Policy(trip=Streak(100))) as breakers:
        text = "a\u2028b\u2029c\x85d\ne\x0bf"
        breakers.record(breakers.admit("ep"), Outcome.FAILURE, error=text)
        assert [failure.message for failure in breakers.inspect("ep").failures] == [text]


def test_successes_arrive_by_themselves(redis_url: str) -> None:
    """Every success of a healthy call reaches Redis soon, though nobody asks for it, however the calls fall."""

    async def scenario() -> None:
        policy = Policy(trip=Streak(5))
        async with AsyncBreakers(RedisStore(redis_url), policy=policy) as here:
            await here.catch_up()
            for burst in range(200):
                for _ in range(burst % 7):
                    async with here.guard("ep"):
                        pass
                # Pauses of all lengths around that of a flush, and now and then an outcome that takes another way.
                await asyncio.sleep((burst % 5) * 0.001)
                if burst % 20 == 0:
                    await here.record(await here.admit("ep"), Outcome.OK)
            made = 10 + sum(burst % 7 for burst in range(200))
            async with AsyncBreakers(RedisStore(redis_url), policy=policy) as there, asyncio.timeout(5):
                while (await there.inspect("ep")).totals.ok < made:
                    await asyncio.sleep(0.005)
                assert (await there.inspect("ep")).totals.ok == made

    asyncio.run(scenario())
