"""aiobreaker: pybreaker for asyncio, as a decorator; it takes plain functions too."""

from __future__ import annotations

from datetime import timedelta

from aiobreaker import CircuitBreaker, CircuitBreakerError

from benchmarks.subjects import AsyncWork, Form, Settings, Subject, Work

_NAME = "aiobreaker"


def _breaker(settings: Settings) -> CircuitBreaker:
    return CircuitBreaker(fail_max=settings.threshold, timeout_duration=timedelta(seconds=settings.cool_off))


def _decorated(work: Work, settings: Settings) -> Work:
    guarded: Work = _breaker(settings)(work)
    return guarded


def _async_decorated(work: AsyncWork, settings: Settings) -> AsyncWork:
    guarded: AsyncWork = _breaker(settings)(work)
    return guarded


THREADS = [Subject(_NAME, Form.DECORATED, _decorated, CircuitBreakerError)]
TASKS = [Subject(_NAME, Form.DECORATED, _async_decorated, CircuitBreakerError)]
