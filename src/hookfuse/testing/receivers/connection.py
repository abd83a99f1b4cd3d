"""One connection of a client: requests in by httptools, answers out.

This one only counts. The parser calls what a connection has, so it never hears of a header or a body, and costs
little enough to stand behind a benchmark. `recording` has the other kind.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from hookfuse.testing.receivers.answers import Answer, Arrival, response
from hookfuse.testing.receivers.endpoint import Endpoint
from hookfuse.testing.receivers.ledger import Ledger
from hookfuse.testing.receivers.playing import Play, reset

_NOT_FOUND = response(404)
_BAD_REQUEST = response(400, [("connection", "close")])


@dataclass(slots=True)
class Directory:
    """What connections share: who lives where, the ledger, and what went wrong."""

    ledger: Ledger | None
    by_path: dict[bytes, Endpoint] = field(default_factory=dict)
    strays: int = 0
    """Requests for nobody."""
    errors: list[Exception] = field(default_factory=list)
    """What tests' own functions raised."""

    def find(self, url: bytes) -> Endpoint | None:
        return self.by_path.get(url) or self.by_path.get(url.partition(b"?")[0])


class Open:
    """The connections of one port that are open now."""

    def __init__(self) -> None:
        self._all: set[Connection] = set()
        self._none = asyncio.Event()
        self._none.set()

    def add(self, connection: Connection) -> None:
        self._all.add(connection)
        self._none.clear()

    def remove(self, connection: Connection) -> None:
        self._all.discard(connection)
        if not self._all:
            self._none.set()

    def reset(self) -> None:
        for connection in tuple(self._all):
            connection.reset()

    async def gone(self) -> None:
        await self._none.wait()

    def __len__(self) -> int:
        return len(self._all)


class Connection(asyncio.Protocol):
    """Counts requests and answers them."""

    def __init__(self, directory: Directory, open_ones: Open) -> None:
        self._directory = directory
        self._open_ones = open_ones
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._endpoint: Endpoint | None = None
        self._keep = True
        self._play: Play | None = None
        self._choosing: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because those of uvloop are transports in all but their class.
        self._transport = cast(asyncio.Transport, transport)
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open_ones.remove(self)
        if self._play is not None:
            self._play.stop()
        if self._choosing is not None:
            self._choosing.cancel()
        if self._endpoint is not None:
            self._finished()

    def reset(self) -> None:
        reset(self._transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserCallbackError:
            raise
        except (HttpParserError, HttpParserUpgrade):
            self._transport.write(_BAD_REQUEST)
            self._transport.close()

    def pause_writing(self) -> None:
        if self._play is not None:
            self._play.pause()

    def resume_writing(self) -> None:
        if self._play is not None:
            self._play.resume()

    def on_url(self, url: bytes) -> None:
        # It comes in pieces when the packets cut it.
        self._url += url

    def on_headers_complete(self) -> None:
        if self._endpoint is not None:
            # A client that sends on before it was answered is none that we serve.
            self.reset()
            return
        self._keep = self._parser.should_keep_alive()
        self._endpoint = self._directory.find(self._url)
        self._url = b""
        if self._endpoint is not None:
            self._endpoint.begun()

    def on_message_complete(self) -> None:
        endpoint = self._endpoint
        if endpoint is None:
            self._stray()
        elif self._play is None and self._choosing is None:
            endpoint.took()
            self._answer(endpoint)

    def _answer(self, endpoint: Endpoint) -> None:
        if endpoint.instant is not None:
            self._write(endpoint, endpoint.instant)
        else:
            assert endpoint.answer is not None
            self._begin(endpoint, endpoint.answer(Arrival(endpoint.name, time.time())))

    def _write(self, endpoint: Endpoint, whole: bytes) -> None:
        endpoint.answers[endpoint.instant_status] += 1
        endpoint.in_flight -= 1
        self._endpoint = None
        self._transport.write(whole)
        if not self._keep:
            self._transport.close()

    def _begin(self, endpoint: Endpoint, answer: Answer) -> None:
        if answer.status is not None:
            endpoint.answers[answer.status] += 1
        self._play = Play(answer, self._transport, keep=self._keep, done=self._finished)
        self._play.go()

    def _finished(self) -> None:
        assert self._endpoint is not None
        self._endpoint.in_flight -= 1
        self._endpoint = None
        self._play = None

    def _stray(self) -> None:
        self._directory.strays += 1
        self._transport.write(_NOT_FOUND)
        if not self._keep:
            self._transport.close()
