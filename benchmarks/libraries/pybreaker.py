"""pybreaker: one CircuitBreaker per integration point; for threads only, unless one has Tornado."""

from __future__ import annotations

import pybreaker

from benchmarks.subjects import Form, Settings, Subject, Work

_NAME = "pybreaker"


def _breaker(settings: Settings) -> pybreaker.CircuitBreaker:
    return pybreaker.CircuitBreaker(fail_max=settings.threshold, reset_timeout=settings.cool_off)


def _decorated(work: Work, settings: Settings) -> Work:
    guarded: Work = _breaker(settings)(work)
    return guarded


def _block(work: Work, settings: Settings) -> Work:
    breaker = _breaker(settings)

    def guarded() -> None:
        with breaker.calling():
            work()

    return guarded


THREADS = [
    Subject(_NAME, Form.DECORATED, _decorated, pybreaker.CircuitBreakerError),
    Subject(_NAME, Form.BLOCK, _block, pybreaker.CircuitBreakerError),
]
