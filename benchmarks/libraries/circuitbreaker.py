"""circuitbreaker: a decorator for functions of both kinds.

Its breaker has `__enter__` too, but undocumented: as a context manager it counts, and never refuses.
"""

from __future__ import annotations

from circuitbreaker import CircuitBreakerError, circuit

from benchmarks.subjects import AsyncWork, Form, Settings, Subject, Work

_NAME = "circuitbreaker"


def _decorated(work: Work, settings: Settings) -> Work:
    guarded: Work = circuit(failure_threshold=settings.threshold, recovery_timeout=settings.cool_off)(work)
    return guarded


def _async_decorated(work: AsyncWork, settings: Settings) -> AsyncWork:
    guarded: AsyncWork = circuit(failure_threshold=settings.threshold, recovery_timeout=settings.cool_off)(work)
    return guarded


THREADS = [Subject(_NAME, Form.DECORATED, _decorated, CircuitBreakerError)]
TASKS = [Subject(_NAME, Form.DECORATED, _async_decorated, CircuitBreakerError)]
