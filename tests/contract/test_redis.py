"""The Redis store keeps the contract of breaker stores: on Redis and Valkey, strict and with the mirror."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hookfuse import Breakers, Outcome, Policy, Streak
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
