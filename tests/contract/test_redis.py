"""The Redis store keeps the contract of breaker stores: on Redis and Valkey, strict and with the mirror."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
