"""purgatory: a factory of breakers by name, for asyncio first; the one for threads is generated from it."""

from __future__ import annotations

from purgatory import AsyncCircuitBreakerFactory, SyncCircuitBreakerFactory
from purgatory.domain.model import OpenedState

from benchmarks.subjects import AsyncWork, Form, Settings, Subject, Work

_NAME = "purgatory"
_CIRCUIT = "ep_1"


def _factory(settings: Settings) -> SyncCircuitBreakerFactory:
    return SyncCircuitBreakerFactory(default_threshold=settings.threshold, default_ttl=settings.cool_off)


def _async_factory(settings: Settings) -> AsyncCircuitBreakerFactory:
    return AsyncCircuitBreakerFactory(default_threshold=settings.threshold, default_ttl=settings.cool_off)


def _decorated(work: Work, settings: Settings) -> Work:
    guarded: Work = _factory(settings)(_CIRCUIT)(work)
    return guarded


def _block(work: Work, settings: Settings) -> Work:
    factory = _factory(settings)

    def guarded() -> None:
        with factory.get_breaker(_CIRCUIT):
            work()

    return guarded


def _async_decorated(work: AsyncWork, settings: Settings) -> AsyncWork:
    guarded: AsyncWork = _async_factory(settings)(_CIRCUIT)(work)
    return guarded


def _async_block(work: AsyncWork, settings: Settings) -> AsyncWork:
    factory = _async_factory(settings)

    async def guarded() -> None:
        async with await factory.get_breaker(_CIRCUIT):
            await work()

    return guarded


THREADS = [
    Subject(_NAME, Form.DECORATED, _decorated, OpenedState),
    Subject(_NAME, Form.BLOCK, _block, OpenedState),
]
TASKS = [
    Subject(_NAME, Form.DECORATED, _async_decorated, OpenedState),
    Subject(_NAME, Form.BLOCK, _async_block, OpenedState),
]
