"""Every library with its breakers in Redis, as its documentation tells; each has its clients to itself.

purgatory's unit of work for threads holds a client for asyncio and fails at its first call, so it is here for asyncio
only. aiobreaker's storage holds a client for threads, which stops the event loop while it waits.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal

import aiobreaker
import interlock
import pybreaker
import redis
import redis.asyncio
from aiobreaker.storage.redis import CircuitRedisStorage
from interlock.integrations.redis import AsyncRedisStorage, RedisStorage
from purgatory import AsyncCircuitBreakerFactory, AsyncRedisUnitOfWork

from benchmarks.shared.two_scripts import AsyncTwoScripts, TwoScripts
from benchmarks.subjects import AsyncWork, W, Work
from hookfuse import AsyncBreakers, Breakers
from hookfuse.stores.redis import RedisStore

MIRROR = "hookfuse, mirror"
STRICT = "hookfuse, strict"
TWO_SCRIPTS = "two scripts a call"
FLOOR = "nothing around it"

_Consistency = Literal["mirror", "strict"]

_DEADLINE = 5.0
"""A hundred callers of one process are all its own waiting; the other libraries wait for ever."""


class Shares(StrEnum):
    """What the processes of a fleet have in common."""

    NOTHING = ""
    COUNTS = "counts"
    STATE = "state only"


@dataclass(frozen=True)
class Contender(Generic[W]):
    """`guard(work, key)` returns `work` guarded by the breaker of that key."""

    library: str
    shares: Shares
    guard: Callable[[W, str], W]
    batch: int
    """Calls of a round: enough for a tenth of a second."""
    counted: Callable[[str], Any] | None = None
    """For ours: how many successes of a key Redis has counted, after all that waits was told."""


def for_threads(url: str, closing: ExitStack) -> list[Contender[Work]]:
    def client() -> redis.Redis:
        made: redis.Redis = redis.Redis.from_url(url)
        closing.callback(made.close)
        return made

    def ours(consistency: _Consistency) -> Breakers:
        store = RedisStore(url, prefix=f"t-{consistency}", deadline=_DEADLINE)
        return closing.enter_context(Breakers(store, consistency=consistency))

    mirror, strict = ours("mirror"), ours("strict")
    for_pybreaker, for_interlock = client(), RedisStorage(client())

    def guard_pybreaker(work: Work, key: str) -> Work:
        storage = pybreaker.CircuitRedisStorage(pybreaker.STATE_CLOSED, for_pybreaker, namespace=key)
        guarded: Work = pybreaker.CircuitBreaker(state_storage=storage)(work)
        return guarded

    def guard_interlock(work: Work, key: str) -> Work:
        breaker = interlock.CircuitBreaker(name=key, storage=for_interlock)
        closing.callback(breaker.close)
        guarded: Work = breaker(work)
        return guarded

    return [
        Contender(FLOOR, Shares.NOTHING, lambda work, _: work, 400_000),
        Contender(MIRROR, Shares.COUNTS, _protector(mirror), 80_000, lambda key: mirror.inspect(key).totals.ok),
        Contender(STRICT, Shares.COUNTS, _protector(strict), 400, lambda key: strict.inspect(key).totals.ok),
        Contender(TWO_SCRIPTS, Shares.COUNTS, TwoScripts(client()).guard, 600),
        Contender("pybreaker", Shares.COUNTS, guard_pybreaker, 600),
        Contender("interlock-cb", Shares.STATE, guard_interlock, 10_000),
    ]


def _protector(breakers: Breakers) -> Callable[[Work, str], Work]:
    return lambda work, key: breakers.protect(key=key)(work)


async def for_tasks(url: str, closing: AsyncExitStack) -> list[Contender[AsyncWork]]:
    def client() -> redis.asyncio.Redis:
        made: redis.asyncio.Redis = redis.asyncio.Redis.from_url(url)
        closing.push_async_callback(made.aclose)
        return made

    async def ours(consistency: _Consistency) -> AsyncBreakers:
        store = RedisStore(url, prefix=f"a-{consistency}", deadline=_DEADLINE)
        made = AsyncBreakers(store, consistency=consistency)
        return await closing.enter_async_context(made)

    mirror, strict = await ours("mirror"), await ours("strict")
    for_aiobreaker, for_interlock = redis.Redis.from_url(url), AsyncRedisStorage(client())
    closing.callback(for_aiobreaker.close)
    purgatory = AsyncCircuitBreakerFactory(uow=AsyncRedisUnitOfWork(url))
    await purgatory.initialize()
    closing.push_async_callback(purgatory.uow.contexts.redis.aclose)

    def guard_aiobreaker(work: AsyncWork, key: str) -> AsyncWork:
        storage = CircuitRedisStorage(aiobreaker.CircuitBreakerState.CLOSED, for_aiobreaker, namespace=key)
        guarded: AsyncWork = aiobreaker.CircuitBreaker(state_storage=storage)(work)
        return guarded

    def guard_purgatory(work: AsyncWork, key: str) -> AsyncWork:
        guarded: AsyncWork = purgatory(key)(work)
        return guarded

    def guard_interlock(work: AsyncWork, key: str) -> AsyncWork:
        breaker = interlock.CircuitBreaker(name=key, storage=for_interlock)
        closing.push_async_callback(breaker.aclose)
        guarded: AsyncWork = breaker(work)
        return guarded

    return [
        Contender(FLOOR, Shares.NOTHING, lambda work, _: work, 400_000),
        Contender(MIRROR, Shares.COUNTS, _async_protector(mirror), 80_000, _counted(mirror)),
        Contender(STRICT, Shares.COUNTS, _async_protector(strict), 1_200, _counted(strict)),
        Contender(TWO_SCRIPTS, Shares.COUNTS, AsyncTwoScripts(client()).guard, 400),
        Contender("purgatory", Shares.COUNTS, guard_purgatory, 400),
        Contender("aiobreaker", Shares.COUNTS, guard_aiobreaker, 400),
        Contender("interlock-cb", Shares.STATE, guard_interlock, 10_000),
    ]


def _async_protector(breakers: AsyncBreakers) -> Callable[[AsyncWork, str], AsyncWork]:
    return lambda work, key: breakers.protect(key=key)(work)


def _counted(breakers: AsyncBreakers) -> Callable[[str], Awaitable[int]]:
    async def counted(key: str) -> int:
        return (await breakers.inspect(key)).totals.ok

    return counted
