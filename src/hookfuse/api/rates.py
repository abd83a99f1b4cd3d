"""How many requests a key may make: a bucket that fills by `limit` a second and holds as many."""

from __future__ import annotations

import math
import time


class Rate:
    """The bucket of one key in this process."""

    __slots__ = ("_at", "_left", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._left = float(limit)
        self._at = time.monotonic()

    def take(self) -> bool:
        """Whether one more request may be made now."""
        now = time.monotonic()
        self._left = min(self._limit, self._left + (now - self._at) * self._limit)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def headers(self) -> tuple[tuple[str, str], ...]:
        """The bucket as RateLimit headers tell it: its size, what is left, and in how many seconds it is full."""
        full_in = (self._limit - self._left) / self._limit
        return (
            ("ratelimit-limit", str(self._limit)),
            ("ratelimit-remaining", str(int(self._left))),
            ("ratelimit-reset", str(math.ceil(full_in))),
        )
