"""Reading one response after the other from the bytes of a connection, never more than we want of any."""

from __future__ import annotations

from typing import Final

import httptools

from hookfuse.transport.limits import Limits

_VERSIONS: Final = ("1.1", "1.0")


class _Stop(Exception):
    """Ends the parsing of a response from within."""


class ResponseReader:
    """The callbacks of a parser, and what they have gathered.

    A response is over when it is `whole`, `truncated` (larger than we read; its status counts) or has a `fault`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most = limits.head_bytes + limits.body_bytes
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Forget the response before."""
        self.taken = 0
        self.status = 0
        self.whole = False
        self.truncated = False
        self.fault = ""
        self.keep_alive = False
        self._pairs: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._head_size = 0
        self._body_size = 0
        self._in_body = False
        self._interim = 0

    def feed(self, data: bytes) -> bool:
        """Take bytes in; true once the response is over."""
        self.taken += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keep_alive = False
            if not (self.whole or self.truncated or self.fault):
                self.fault = f"malformed ({error})"
            return True
        return self.whole or self._is_too_much()

    def ends_with_connection(self) -> bool:
        """Whether the response is whole once the peer closes, because nothing else says where its body ends."""
        return self._in_body and not any(
            name == "content-length" or (name == "transfer-encoding" and value.lower().endswith("chunked"))
            for name, value in self.headers
        )

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        # The parser leaves spaces at the end of a value.
        return tuple(
            [(name.decode("latin-1").lower(), value.decode("latin-1").rstrip(" \t")) for name, value in self._pairs]
        )

    @property
    def body(self) -> bytes:
        pieces = self._pieces
        if self.truncated:
            return b"".join(pieces)[: self._limits.body_bytes]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self) -> None:
        """Part with the parser, which holds this object by its callbacks."""
        del self._parser

    def _is_too_much(self) -> bool:
        if self._in_body:
            # A body in tiny chunks, or trailers without end.
            self.truncated = self.taken > self._most
            return self.truncated
        if self.taken > self._limits.head_bytes:
            self.fault = f"headers of more than {self._limits.head_bytes} bytes"
            return True
        return False

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.whole:
            # More than one answer to one request: the next would be read as that of another.
            raise _Stop

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer
        self._head_size += len(name) + len(value)
        self._pairs.append((name, value))
        if len(self._pairs) > self._limits.head_lines:
            self.fault = f"more than {self._limits.head_lines} headers"
            raise _Stop

    def on_headers_complete(self) -> None:
        parser = self._parser
        self.status = status = parser.get_status_code()
        self._in_body = True
        if self._head_size > self._limits.head_bytes:
            self.fault = f"headers of more than {self._limits.head_bytes} bytes"
        elif parser.get_http_version() not in _VERSIONS:
            self.fault = f"HTTP/{parser.get_http_version()}"
        elif status < 100 or status == 101:
            self.fault = f"a status of {status}"
        if self.fault:
            raise _Stop

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._body_size += len(body)
        if self._body_size > self._limits.body_bytes:
            self.truncated = True
            raise _Stop

    def on_message_complete(self) -> None:
        if self.status >= 200:
            self.whole = True
            self.keep_alive = self._parser.should_keep_alive()
            return
        self._interim += 1
        if self._interim > self._limits.interim:
            self.fault = f"more than {self._limits.interim} interim responses"
            raise _Stop
        self._pairs.clear()
        self._in_body = False
