"""interlock-cb: one named CircuitBreaker per dependency, the same for threads and for asyncio."""

from __future__ import annotations

from interlock import CircuitBreaker, CircuitOpenError, Config

from benchmarks.subjects import AsyncWork, Form, Settings, Subject, Work

_NAME = "interlock-cb"


def _breaker(settings: Settings) -> CircuitBreaker:
    # It has no streak; at its default rate of a half, a first row of failures trips it at the same count.
    config = Config(minimum_number_of_calls=settings.threshold, wait_duration_in_open=settings.cool_off)
    return CircuitBreaker(name="ep_1", config=config)


def _decorated(work: Work, settings: Settings) -> Work:
    guarded: Work = _breaker(settings)(work)
    return guarded


def _block(work: Work, settings: Settings) -> Work:
    breaker = _breaker(settings)

    def guarded() -> None:
        with breaker:
            work()

    return guarded


def _async_decorated(work: AsyncWork, settings: Settings) -> AsyncWork:
    guarded: AsyncWork = _breaker(settings)(work)
    return guarded


def _async_block(work: AsyncWork, settings: Settings) -> AsyncWork:
    breaker = _breaker(settings)

    async def guarded() -> None:
        async with breaker:
            await work()

    return guarded


THREADS = [
    Subject(_NAME, Form.DECORATED, _decorated, CircuitOpenError),
    Subject(_NAME, Form.BLOCK, _block, CircuitOpenError),
]
TASKS = [
    Subject(_NAME, Form.DECORATED, _async_decorated, CircuitOpenError),
    Subject(_NAME, Form.BLOCK, _async_block, CircuitOpenError),
]
