"""One connection: a request out, a response in, one at a time.

This is the hot path. There is no stream, no task, no future and no timer in it: a request on a kept connection costs
one write, and the call of whoever waits for the answer. Its owner watches the deadlines of all connections.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import Final, Protocol, TypeAlias, cast

from hookfuse.core.addresses import Address
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.transport.limits import Limits
from hookfuse.transport.response import ResponseReader
from hookfuse.transport.sessions import Handshake
from hookfuse.transport.tls import tls_failure
from hookfuse.transport.troubles import Failure, os_failure

Answered: TypeAlias = Callable[[SendResult | None], None]

_SOON_AT_LEAST: Final = 0.05
"""Seconds. A round trip may be shorter, but our own event loop may not look at once."""
_SOON_AT_MOST: Final = 1.0


class Owner(Protocol):
    """Who keeps the books of open connections, and ends requests at their deadlines."""

    next_deadline: float
    """When it looks next; whoever has an earlier deadline says so."""

    buffer: memoryview
    """Where connections read into, as large as a response may be. One serves them all: an event loop fills it and says
    so in one go, and nothing of it is needed after that."""

    def watch(self, deadline: float) -> None: ...

    def opened(self, connection: Connection) -> None: ...

    def lost(self, connection: Connection) -> None: ...


class Connection(asyncio.BufferedProtocol):
    """A connection to one vetted address.

    A kept connection may have been closed by the peer while our request was on its way. Then the answer is None, and
    the caller sends the request again on a new connection. That is so only if the connection had carried an exchange
    before, and ended without a single byte of an answer to this one, and soon: who had hung up before the request
    arrived is found out within a round trip. Who hangs up later has had the request, and may have worked on it. A peer
    that takes a request and hangs up just as soon cannot be told from that, and sees it twice.
    """

    def __init__(
        self, limits: Limits, address: Address, owner: Owner, connecting: float, handshake: Handshake | None
    ) -> None:
        """`connecting` is how many seconds it took to connect: a round trip, or a little more."""
        self.address = address
        self.handshake = handshake
        self.idle_since = 0.0
        self.idle_seconds = limits.idle_seconds
        self.deadline = inf
        self._owner = owner
        self._buffer = owner.buffer
        self._most = limits.response_bytes
        self._reader = ResponseReader(limits)
        self._waiter: Answered | None = None
        self._keep = True
        self._started = 0.0
        self._exchanges = 0
        # Twice, because round trips vary.
        self._soon = min(max(2 * connecting, _SOON_AT_LEAST), _SOON_AT_MOST)

    def exchange(self, data: bytes, started: float, deadline: float, answered: Answered) -> None:
        """Send a request; `answered` is called once, unless the connection is aborted before. Both are monotonic."""
        self._reader.begin()
        self._started = started
        self._exchanges += 1
        self._waiter = answered
        self.deadline = deadline
        if deadline < self._owner.next_deadline:
            self._owner.watch(deadline)
        self._transport.write(data)

    @property
    def reusable(self) -> bool:
        return self._keep and not self._transport.is_closing()

    def heed(self, longest: float) -> None:
        """Stay idle for as long as the response says that the peer does, less a second for the way."""
        told = self._reader.keep_seconds
        if told is not None:
            self.idle_seconds = max(self.idle_seconds, min(told - 1, longest))

    def abort(self) -> None:
        """Close at once, whatever is under way."""
        self._keep = False
        self._waiter = None
        self.deadline = inf
        self._transport.abort()

    def fail(self, failure: Failure) -> None:
        """Close at once, and tell whoever waits why."""
        waiter = self._waiter
        self.abort()
        if waiter is not None:
            waiter(SendResult(None, failure.trouble, monotonic() - self._started, detail=failure.detail))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._owner.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        # What has no place in it stays in the socket.
        left = self._reader.left
        return self._buffer if left == self._most else self._buffer[:left]

    def buffer_updated(self, nbytes: int) -> None:
        reader = self._reader
        if self._waiter is None:
            # Nobody asked for it. It must not be read as the answer to the next request.
            self.abort()
        elif reader.feed(self._buffer[:nbytes]):
            if reader.fault:
                self.fail(Failure(Trouble.PROTOCOL, f"The response is not one that we take: {reader.fault}."))
            else:
                # With a part of the request still unsent, the next one would follow in the midst of it.
                self._keep = reader.keep_alive and not self._transport.get_write_buffer_size()
                if not reader.left:
                    # At once: by the time that its owner closes it, more would have been read.
                    self._transport.abort()
                self._succeed()

    def connection_lost(self, exc: Exception | None) -> None:
        self._keep = False
        if self._waiter is not None:
            if exc is None and self._reader.ends_with_connection():
                self._succeed()
            elif self._was_gone(exc):
                self._answer(None)
            else:
                self.fail(self._loss(exc))
        self._reader.release()
        self._owner.lost(self)

    def _was_gone(self, exc: Exception | None) -> bool:
        """Whether a kept connection had been closed, as far as one can know, before the request arrived."""
        return (
            self._exchanges > 1
            and not self._reader.begun
            and not isinstance(exc, ssl.SSLError)
            and monotonic() - self._started <= self._soon
        )

    def _loss(self, exc: Exception | None) -> Failure:
        if isinstance(exc, ssl.SSLError):
            return tls_failure(exc)
        if isinstance(exc, OSError):
            failure = os_failure(exc.errno, Trouble.DISCONNECTED)
            if failure.trouble is Trouble.LOCAL:
                return failure
        how = "closed" if exc is None else "broken"
        when = "before the response was complete" if self._reader.begun else "before a response"
        return Failure(Trouble.DISCONNECTED, f"The connection was {how} {when}.")

    def expire(self) -> None:
        """The deadline has passed."""
        what = "was complete" if self._reader.begun else "began"
        self.fail(Failure(Trouble.TIMEOUT, f"The deadline passed before the response {what}."))

    def _succeed(self) -> None:
        reader = self._reader
        latency = monotonic() - self._started
        # Nobody asks for the headers of a success, and reading them is a twentieth of what it costs.
        headers = () if 200 <= reader.status < 300 else reader.headers
        self._answer(SendResult(reader.status, None, latency, headers, reader.body, reader.truncated))

    def _answer(self, result: SendResult | None) -> None:
        waiter = self._waiter
        self._waiter = None
        self.deadline = inf
        if waiter is not None:
            waiter(result)
