"""How long a task waits for Redis: only the time counts in which its event loop was there to hear the answer."""

from __future__ import annotations

import asyncio
from types import TracebackType

_SLICES = 4
_MOST_SLICES = 6


class Deadline:
    """`async with Deadline(0.1):` ends like `asyncio.timeout`, with TimeoutError, but not for our own fault.

    A loop that was busy elsewhere finds its timer due and the answer in the socket at once, and the timer wins. So the
    time is cut into slices, and one that ended late by its own length does not count. A loop that is always late gets
    some more of them, and then it is enough.
    """

    __slots__ = ("_due", "_left", "_limit", "_loop", "_most", "_slice", "_timer")

    def __init__(self, seconds: float) -> None:
        self._slice = seconds / _SLICES
        self._left = _SLICES
        self._most = _MOST_SLICES
        self._limit = asyncio.timeout(None)
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> None:
        await self._limit.__aenter__()
        self._wait()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._limit.__aexit__(kind, error, trace)

    def _wait(self) -> None:
        self._due = self._loop.time() + self._slice
        self._timer = self._loop.call_at(self._due, self._end_slice)

    def _end_slice(self) -> None:
        now = self._loop.time()
        self._most -= 1
        if now - self._due < self._slice:
            self._left -= 1
        if self._left and self._most:
            self._wait()
        else:
            self._limit.reschedule(now)
