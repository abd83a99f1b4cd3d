"""Lines over a socket, and the same over TLS.

Before TLS the socket is read here and not by the event loop's streams, so that what was read too early is known, and
nobody on the way can put words into the server's mouth.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import Final, Protocol

_LONGEST_LINE: Final = 2_048


class Broken(Exception):
    """The connection is of no more use; the text is for people."""


class Wire(Protocol):
    async def line(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    def take_socket(self) -> socket.socket: ...

    def close(self) -> None: ...


class PlainWire:
    def __init__(self, sock: socket.socket) -> None:
        self._socket: socket.socket | None = sock
        self._read = b""

    async def line(self) -> bytes:
        assert self._socket is not None
        loop = asyncio.get_running_loop()
        while b"\n" not in self._read:
            data = await loop.sock_recv(self._socket, _LONGEST_LINE)
            self._read += data
            if not data:
                raise Broken("the mail server closed the connection")
            if b"\n" not in self._read and len(self._read) > _LONGEST_LINE:
                raise Broken("the mail server's lines are too long")
        line, end, self._read = self._read.partition(b"\n")
        return line + end

    async def write(self, data: bytes) -> None:
        assert self._socket is not None
        await asyncio.get_running_loop().sock_sendall(self._socket, data)

    def take_socket(self) -> socket.socket:
        """Hand it over; what was said too early is a forgery."""
        if self._read:
            raise Broken("the mail server spoke before TLS was on")
        assert self._socket is not None
        sock, self._socket = self._socket, None
        return sock

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()


class TlsWire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, wire: Wire, context: ssl.SSLContext, host: str) -> TlsWire:
        sock = wire.take_socket()
        try:
            reader, writer = await asyncio.open_connection(
                sock=sock, ssl=context, server_hostname=host, limit=_LONGEST_LINE
            )
        except BaseException:
            sock.close()
            raise
        return cls(reader, writer)

    async def line(self) -> bytes:
        try:
            line = await self._reader.readline()
        except ValueError:
            raise Broken("the mail server's lines are too long") from None
        if not line.endswith(b"\n"):
            raise Broken("the mail server closed the connection")
        return line

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def take_socket(self) -> socket.socket:
        raise Broken("TLS is on already")

    def close(self) -> None:
        self._writer.transport.abort()
