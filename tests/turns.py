"""The turns of an event loop, counted."""

from __future__ import annotations

import asyncio
from types import TracebackType


class Turns:
    """`now` is the number of the turn, while the block lasts."""

    def __init__(self) -> None:
        self.now = 0

    def __enter__(self) -> Turns:
        self._count()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._next.cancel()

    def _count(self) -> None:
        self.now += 1
        self._next = asyncio.get_running_loop().call_soon(self._count)
