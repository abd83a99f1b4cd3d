"""One stream for each open page: it says that something changed, and the page looks again.

What changed is not told, so nothing has to be queued: a storm of changes is one message, at most two of them are sent a
second, and a page that reads slowly is behind by one message, never by many. What other processes do is not heard here,
so a page is told to look every few seconds anyway. The stream ends with the server, and with the visitor's key.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

FOLD = 0.5
LOOK_EVERY = 5.0
_CHECK_EVERY = 2.0
MOST_STREAMS = 200

CHANGE = b"event: change\ndata:\n\n"
LEAVE = b"event: leave\ndata:\n\n"
_HELLO = b"retry: 2000\n: hello\n\n"
_BEAT = b": still here\n\n"


class Live:
    def __init__(self) -> None:
        self._changes = 0
        self._waiting: set[asyncio.Future[None]] = set()
        self._closed = False
        self.streams = 0

    @property
    def full(self) -> bool:
        return self.streams >= MOST_STREAMS

    def ring(self, _: object = None) -> None:
        """Something changed. It is called for each attempt, so it does next to nothing."""
        self._changes += 1
        if self._waiting:
            self._wake()

    def close(self) -> None:
        """The server ends: so do the streams."""
        self._closed = True
        self._wake()

    async def stream(self, welcome: Callable[[], Awaitable[bool]]) -> AsyncGenerator[bytes, None]:
        """Messages for one page; `welcome` says whether its visitor may still look."""
        self.streams += 1
        try:
            yield _HELLO
            seen, told = self._changes, time.monotonic()
            # The page was made before this stream began: whatever happened in between is seen by looking once.
            yield CHANGE
            while not self._closed:
                if self._changes == seen:
                    await self._pause(_CHECK_EVERY)
                if not await welcome():
                    yield LEAVE
                    return
                if self._changes != seen or time.monotonic() - told >= LOOK_EVERY:
                    seen, told = self._changes, time.monotonic()
                    yield CHANGE
                    await asyncio.sleep(0 if self._closed else FOLD)
                else:
                    yield _BEAT
        finally:
            self.streams -= 1

    async def _pause(self, seconds: float) -> None:
        bell = asyncio.get_running_loop().create_future()
        self._waiting.add(bell)
        try:
            await asyncio.wait([bell], timeout=seconds)
        finally:
            self._waiting.discard(bell)

    def _wake(self) -> None:
        for bell in self._waiting:
            if not bell.done():
                bell.set_result(None)
        self._waiting.clear()
