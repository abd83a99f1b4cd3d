"""A client that hides nothing: bytes out, bytes in."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

PATIENCE = 10.0  # seconds before a wait that should be short gives up


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until it is so."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0)


def request(url: str, body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> bytes:
    parts = urlsplit(url)
    path = parts.path + (f"?{parts.query}" if parts.query else "")
    all_headers = {"host": parts.netloc, "content-length": str(len(body)), **(headers or {})}
    lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in all_headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, url: str, *, tls: ssl.SSLContext | None = None, name: str | None = None) -> Client:
        parts = urlsplit(url)
        limit = 1 << 22
        async with asyncio.timeout(PATIENCE):
            return cls(
                *await asyncio.open_connection(
                    parts.hostname, parts.port, ssl=tls, server_hostname=name if tls else None, limit=limit
                )
            )

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def head(self) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readuntil(b"\r\n\r\n")

    async def exactly(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self._reader.readexactly(size)

    async def rest(self) -> bytes:
        """Everything until the connection ends."""
        async with asyncio.timeout(PATIENCE):
            return await self._reader.read()

    async def reply(self) -> Reply:
        lines = (await self.head()).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return Reply(int(lines[0].split()[1]), headers, await self.exactly(int(headers.get("content-length", 0))))

    async def close(self) -> None:
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except OSError:
            pass


async def post(url: str, body: bytes = b"{}", headers: Mapping[str, str] | None = None) -> Reply:
    client = await Client.connect(url)
    try:
        client.send(request(url, body, headers))
        return await client.reply()
    finally:
        await client.close()
