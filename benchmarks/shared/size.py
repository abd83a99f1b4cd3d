"""How much memory does a live breaker take in Redis: what the server grows by, divided by how many were made."""

from __future__ import annotations

import asyncio

import redis

from benchmarks.report import Bar, say, table
from benchmarks.shared.server import said
from hookfuse import AsyncBreakers, Breakers, Outcome, Policy, State, Streak
from hookfuse.stores.redis import RedisStore
from hookfuse.stores.redis.keys import Keys
from hookfuse.testing.redis import store_with_clock

HEALTHY = 20_000
OPEN = 1_000
BYTES = 1_024

_BUCKETS = 10
_FAILURES = 5
_AT_ONCE = 50
_PREFIX = "hookfuse"
_SHARDS = 64


def measure(url: str) -> tuple[str, list[Bar]]:
    say("shared, memory: a few seconds")
    with redis.Redis.from_url(url) as client:
        client.flushall()
        one, healthy = _healthy(client, url)
        client.flushall()
        open_one, opened = asyncio.run(_open(client, url))
    rows = [
        [f"healthy, a full window ({HEALTHY:,})", f"{one:,}", f"{healthy:,.0f}"],
        [f"open, its last {_FAILURES} failures ({OPEN:,})", f"{open_one:,}", f"{opened:,.0f}"],
    ]
    claim = f"memory: a healthy breaker with a full window takes at most {BYTES:,} bytes"
    bars = [Bar(claim, f"{healthy:,.0f}", healthy <= BYTES)]
    return table(["bytes of a breaker in Redis", "its key", "server grew by"], rows), bars


def _keys(count: int) -> list[str]:
    return [f"ep_{number:021}" for number in range(count)]


def _used(client: redis.Redis) -> int:
    return int(said(client, "memory")["used_memory"])


def _healthy(client: redis.Redis, url: str) -> tuple[int, float]:
    store, clock = store_with_clock(url, prefix=_PREFIX, shards=_SHARDS)
    with Breakers(store, policy=Policy(trip=Streak(5))) as breakers:
        first, *others = _keys(HEALTHY)
        for _ in range(_BUCKETS):
            clock.advance(6)
            breakers.record(breakers.admit(first), Outcome.OK, latency=0.1)
            breakers.inspect(first)
        assert breakers.inspect(first).counts.ok == _BUCKETS, "the window is not full"
        size, before = _usage(client, first), _used(client)
        # Copies, because filling each of them through the scripts takes too long for every run.
        keys = Keys(_PREFIX, _SHARDS)
        source = keys.breaker(keys.shard(first), first)
        for start in range(0, len(others), _AT_ONCE):
            pipe = client.pipeline(transaction=False)
            for key in others[start : start + _AT_ONCE]:
                pipe.copy(source, keys.breaker(keys.shard(key), key))
            pipe.execute()
        grown = _used(client) - before
        assert _usage(client, others[-1]) == size, "a copy differs"
    clock.close()
    return size, grown / len(others)


async def _open(client: redis.Redis, url: str) -> tuple[int, float]:
    keys = _keys(OPEN)
    async with AsyncBreakers(RedisStore(url, prefix=_PREFIX, deadline=5.0), policy=Policy(trip=Streak(5))) as breakers:
        await _fail(breakers, "warm")
        before = _used(client)
        for first in range(0, OPEN, _AT_ONCE):
            await asyncio.gather(*(_fail(breakers, key) for key in keys[first : first + _AT_ONCE]))
        grown = _used(client) - before
        found = await breakers.inspect(keys[-1])
        assert found.state is State.OPEN, found
        assert len(found.failures) == _FAILURES, found
    return _usage(client, keys[-1]), grown / OPEN


async def _fail(breakers: AsyncBreakers, key: str) -> None:
    admissions = [await breakers.admit(key) for _ in range(_FAILURES)]
    for admission in admissions:
        await breakers.record(admission, Outcome.FAILURE, error=f"503 from https://{key}.example/hook")


def _usage(client: redis.Redis, key: str) -> int:
    keys = Keys(_PREFIX, _SHARDS)
    size = client.memory_usage(keys.breaker(keys.shard(key), key), samples=0)
    assert isinstance(size, int)
    return size
