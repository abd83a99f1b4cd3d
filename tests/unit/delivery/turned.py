"""An event loop whose time is turned: what waits for a timer waits no longer than others need to answer.

Sockets and threads are real. When nothing has happened for a moment, time jumps to the next timer. A machine that is
slow makes the time longer that a test measures, never shorter.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Mapping
from typing import Any

MOMENT = 0.02
"""Real seconds that an answer of a thread or a socket may take."""
_BEGINNING = 1_700_000_000.0
_LEAST = 1e-6


class TurnedLoop(asyncio.SelectorEventLoop):
    """Its time is that of timers; as a clock, it tells Unix seconds."""

    def __init__(self) -> None:
        self._at = 0.0
        super().__init__(_Turning(self))

    def time(self) -> float:
        return self._at

    def now(self) -> float:
        return _BEGINNING + self._at

    def turn(self, seconds: float) -> None:
        # Never by less than a timer can tell apart.
        self._at += max(seconds, _LEAST)


class _Turning(selectors.BaseSelector):
    def __init__(self, loop: TurnedLoop) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return self._real.select(timeout)
        found = self._real.select(MOMENT)
        if not found:
            self._loop.turn(timeout)
        return found

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
