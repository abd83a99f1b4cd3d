"""A clock that stands still until it is told otherwise."""

from __future__ import annotations

from datetime import timedelta

from hookfuse.core.bounds import Duration
from hookfuse.errors import InvalidInput, shown


class ManualClock:
    """Unix seconds, moved by hand; `advance` takes a negative number too, for clocks that go back."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self._ms = round(start * 1000)

    def now(self) -> float:
        return self._ms / 1000

    def advance(self, seconds: Duration) -> None:
        step = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        if isinstance(step, bool) or not isinstance(step, int | float):
            raise InvalidInput(f"advance takes seconds or a timedelta, got {shown(seconds)}.")
        # Whole milliseconds, so that a thousand steps of 0.1 s are exactly 100 s.
        self._ms += round(step * 1000)
