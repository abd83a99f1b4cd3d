"""HTTP as uvicorn speaks it, with a short way for messages: from the parser to `Ingest`, and back in one write.

Most of what a message costs over HTTP is the way through ASGI. So a plain request to send one does not take it. What
is not plain about others (a body that is large or of unknown length, an escape in the path, an answer before it that
is still to come) goes the long way, to the same `Ingest`: there nobody's large body is read before the key is known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from hookfuse.api.ingest import Answer, Head, Ingest, is_way, read_head


def server_config(
    served: ASGIApp, ingest: Ingest | None, told: Callable[[int], None] = lambda status: None, *, grace: int = 1
) -> uvicorn.Config:
    """A server of `served`, where messages may go straight to `ingest`; `told` hears the status of those that did."""
    spoken = HttpToolsProtocol if ingest is None else partial(MessageProtocol, ingest, told)
    return uvicorn.Config(
        served,
        loop="none",
        http=cast("type[asyncio.Protocol]", spoken),
        ws="none",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=grace,
    )


class _Exchange(RequestResponseCycle):
    """A message and its answer. To the protocol it is what other requests are: who asks, and whether it is over."""

    message_event = asyncio.Event()
    """Nobody waits for it: a message is begun when all of it is there."""

    def __init__(self, path: str, query: bytes, head: Head, *, keep_alive: bool) -> None:
        self.path = path
        self.query = query
        self.head = head
        self.parts: list[bytes] = []
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_complete = False

    async def read(self) -> bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class MessageProtocol(HttpToolsProtocol):
    def __init__(self, ingest: Ingest, told: Callable[[int], None], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._ingest = ingest
        self._told = told

    def on_headers_complete(self) -> None:
        exchange = self._plain()
        if exchange is None:
            super().on_headers_complete()
        else:
            self.cycle = exchange

    def on_body(self, body: bytes) -> None:
        if isinstance(self.cycle, _Exchange):
            self.cycle.parts.append(body)
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if isinstance(self.cycle, _Exchange):
            task = self.loop.create_task(self._exchange(self.cycle))
            # The server waits for these when it ends.
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        else:
            super().on_message_complete()

    def _plain(self) -> _Exchange | None:
        """What the parser has read, if it is a message that may go the short way."""
        if self.cycle is not None and not self.cycle.response_complete:
            return None
        path, _, query = self.url.partition(b"?")
        if not path.isascii() or b"%" in path or b"#" in self.url or self.expect_100_continue:
            return None
        way = path.decode()
        if not is_way(self.parser.get_method().decode(), way) or self.parser.should_upgrade():
            return None
        head = read_head(self.headers)
        if not 0 < head.length <= min(self._ingest.limit, HIGH_WATER_LIMIT):
            return None
        keep_alive = self.parser.get_http_version() != "1.0" and self.parser.should_keep_alive()
        return _Exchange(way, query, head, keep_alive=keep_alive)

    async def _exchange(self, exchange: _Exchange) -> None:
        try:
            answer = await self._ingest.answer(exchange.path, exchange.query, exchange.head, exchange.read)
            assert answer is not None, "the body was read before"
            self._told(answer.status)
            if self.flow.write_paused:
                await self.flow.drain()
            if self.transport.is_closing():
                # The client has left.
                return
            exchange.response_complete = True
            self.transport.write(self._written(answer, exchange.keep_alive))
            if not exchange.keep_alive:
                self.transport.close()
            self.on_response_complete()
        except BaseException:
            # Without an answer the connection is of no use: what came next on it would be taken for one.
            self.transport.close()
            raise

    def _written(self, answer: Answer, keep_alive: bool) -> bytes:
        lines = [b"%b: %b\r\n" % each for each in (*self.server_state.default_headers, *answer.headers)]
        ended = b"\r\n" if keep_alive else b"connection: close\r\n\r\n"
        return b"".join([STATUS_LINE[answer.status], *lines, ended, answer.body])
