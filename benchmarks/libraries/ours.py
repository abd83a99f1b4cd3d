"""Hookfuse with its default policy, but for the numbers that a benchmark sets."""

from __future__ import annotations

from benchmarks.subjects import OURS, AsyncWork, Form, Settings, Subject, Work
from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Outcome, Policy, Rate, Streak
from hookfuse.stores.memory import MemoryStore

KEY = "ep_1"


def policy(settings: Settings) -> Policy:
    rate = Rate(0.5, min_calls=max(20, settings.threshold))
    return Policy(trip=Streak(settings.threshold) | rate, cool_off=settings.cool_off)


def _breakers(settings: Settings) -> Breakers:
    return Breakers(MemoryStore(clock=settings.clock), policy=policy(settings))


def _async_breakers(settings: Settings) -> AsyncBreakers:
    return AsyncBreakers(MemoryStore(clock=settings.clock), policy=policy(settings))


def _decorated(work: Work, settings: Settings) -> Work:
    return _breakers(settings).protect(key=KEY)(work)


def _after_a_failure(work: Work, settings: Settings) -> Work:
    breakers = _breakers(settings)
    breakers.record(breakers.admit(KEY), Outcome.FAILURE)
    return breakers.protect(key=KEY)(work)


def _block(work: Work, settings: Settings) -> Work:
    breakers = _breakers(settings)

    def guarded() -> None:
        with breakers.guard(KEY):
            work()

    return guarded


def _async_decorated(work: AsyncWork, settings: Settings) -> AsyncWork:
    return _async_breakers(settings).protect(key=KEY)(work)


def _async_block(work: AsyncWork, settings: Settings) -> AsyncWork:
    breakers = _async_breakers(settings)

    async def guarded() -> None:
        async with breakers.guard(KEY):
            await work()

    return guarded


THREADS = [Subject(OURS, Form.DECORATED, _decorated, BreakerOpen), Subject(OURS, Form.BLOCK, _block, BreakerOpen)]
TASKS = [
    Subject(OURS, Form.DECORATED, _async_decorated, BreakerOpen),
    Subject(OURS, Form.BLOCK, _async_block, BreakerOpen),
]
AFTER_A_FAILURE = Subject("  with a failure in its window", Form.DECORATED, _after_a_failure, BreakerOpen)
"""Most successes find a spotless window; these do not, and take the longer way."""
