"""Walks the steps of an answer on a connection, by callbacks: a waiting answer costs a timer, not a task."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import assert_never

from hookfuse.testing.receivers.answers import FOREVER, Answer, Ending

# A linger of zero seconds makes close() send RST.
_NO_LINGER = struct.pack("ii", 1, 0)


def reset(transport: asyncio.Transport) -> None:
    """End a connection as a crashed peer would."""
    raw = transport.get_extra_info("socket")
    if raw is not None and not transport.is_closing():
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


class Play:
    """One answer on its way."""

    __slots__ = ("_answer", "_done", "_full", "_held", "_keep", "_loop", "_next", "_step", "_steps", "_transport")

    def __init__(self, answer: Answer, transport: asyncio.Transport, *, keep: bool, done: Callable[[], None]) -> None:
        self._answer = answer
        self._transport = transport
        self._keep = keep
        self._done = done
        self._loop = asyncio.get_running_loop()
        self._steps = iter(answer.steps)
        self._step = next(self._steps, None)
        self._next: asyncio.Handle | None = None
        self._full = False
        self._held = False

    def go(self) -> None:
        """Take the next step; the connection's buffer, the clock or the loop call for the one after it."""
        if self._full:
            self._held = True
            return
        step = self._step
        if isinstance(step, float | int):
            self._wait(step)
            return
        if step is not None:
            self._transport.write(step)
            self._step = next(self._steps, None)
        # A client that has read the last byte may send its next request at once, so the end must not come later.
        if self._step is None:
            self._end()
        else:
            # Others get their turn after each piece, however fast the client reads.
            self._next = self._loop.call_soon(self.go)

    def _wait(self, seconds: float) -> None:
        self._step = next(self._steps, None)
        if seconds != FOREVER:
            self._next = self._loop.call_later(seconds, self.go)

    def _end(self) -> None:
        self._done()
        match self._answer.ending:
            case Ending.KEEP:
                if not self._keep:
                    self._transport.close()
            case Ending.CLOSE:
                self._transport.close()
            case Ending.RESET:
                reset(self._transport)
            case unknown:
                assert_never(unknown)

    def pause(self) -> None:
        """The client does not read: hold the rest back."""
        self._full = True

    def resume(self) -> None:
        self._full = False
        if self._held:
            self._held = False
            self._next = self._loop.call_soon(self.go)

    def stop(self) -> None:
        if self._next is not None:
            self._next.cancel()
