"""Reading one response after the other from the bytes of a connection, never more than we want of any."""

from __future__ import annotations

import re
from typing import Final

import httptools

from hookfuse.transport.limits import Limits

_VERSIONS: Final = ("1.1", "1.0")
_TIMEOUT: Final = re.compile(r"(?:^|[\s,;])timeout\s*=\s*\"?([0-9]{1,6})(?![0-9])", re.IGNORECASE)


class _Stop(Exception):
    """Ends the parsing of a response from within."""


class ResponseReader:
    """The callbacks of a parser, and what they have gathered.

    A response is over when it is `whole`, `truncated` (larger than we read; its status counts) or has a `fault`.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._parser = httptools.HttpResponseParser(self)
        self.begin()

    def begin(self) -> None:
        """Forget the response before."""
        self.left = self._limits.response_bytes
        self.status = 0
        self.whole = False
        self.truncated = False
        self.fault = ""
        self.keep_alive = False
        self._pairs: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._in_body = False
        self._interim = 0

    def feed(self, data: memoryview) -> bool:
        """Take bytes in, no more than are `left`; true once the response is over."""
        self.left -= len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keep_alive = False
            if not (self.whole or self.truncated or self.fault):
                self.fault = f"malformed ({error})"
            return True
        return self.whole or (not self.left and self._cut())

    @property
    def begun(self) -> bool:
        """Whether there is a byte of it."""
        return self.left < self._limits.response_bytes

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
    def keep_seconds(self) -> int | None:
        """For how long the peer keeps an idle connection, if it says so."""
        told = [_TIMEOUT.search(value) for name, value in self.headers if name == "keep-alive"]
        return next((int(found[1]) for found in told if found), None)

    @property
    def body(self) -> bytes:
        pieces = self._pieces
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def release(self) -> None:
        """Part with the parser, which holds this object by its callbacks."""
        del self._parser

    def _cut(self) -> bool:
        if self._in_body:
            self.truncated = True
        else:
            self.fault = f"headers of more than {self._limits.response_bytes} bytes"
        return True

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.whole:
            # More than one answer to one request: the next would be read as that of another.
            raise _Stop

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_body:
            return  # a trailer
        self._pairs.append((name, value))
        if len(self._pairs) > self._limits.head_lines:
            self.fault = f"more than {self._limits.head_lines} headers"
            raise _Stop

    def on_headers_complete(self) -> None:
        parser = self._parser
        self.status = status = parser.get_status_code()
        self._in_body = True
        if parser.get_http_version() not in _VERSIONS:
            self.fault = f"HTTP/{parser.get_http_version()}"
        elif status < 100 or status == 101:
            self.fault = f"a status of {status}"
        if self.fault:
            raise _Stop

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

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
