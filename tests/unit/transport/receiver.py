"""Raw servers on loopback that do as they are told, byte by byte."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from hookfuse.core.addresses import Networks
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request

LOOPBACK = Networks(allowed=("127.0.0.0/8", "::1/128"))
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class Receiver:
    """What a server has seen."""

    def __init__(self) -> None:
        self.port = 0
        self.connections = 0
        self.open = 0
        self.requests: list[bytes] = []
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()

    def url(self, path: str = "/", *, scheme: str = "http", host: str = "127.0.0.1") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        """The next request: its head and its body."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.partition(b":")[2]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        request = head + await reader.readexactly(length)
        self.requests.append(request)
        self.arrived.set()
        return request


Script: TypeAlias = Callable[[Receiver, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def receiving(
    script: Script, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Receiver]:
    """A server that runs `script` for each connection, and ends with the block."""
    receiver = Receiver()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        receiver.connections += 1
        receiver.open += 1
        try:
            await script(receiver, reader, writer)
        except (EOFError, OSError, asyncio.CancelledError):
            pass
        finally:
            receiver.open -= 1
            receiver.left.set()
            writer.transport.abort()
            tasks.discard(task)

    server = await asyncio.start_server(serve, host, port, ssl=tls, limit=2**20, backlog=1_000)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await server.wait_closed()


def answering(*pieces: bytes, pause: float = 0.0) -> Script:
    """Answer every request with these pieces, with a pause after each; a connection is kept unless they say not."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await receiver.read(reader)
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
            if any(b"connection: close" in piece for piece in pieces):
                return

    return script


def once(response: bytes) -> Script:
    """Answer one request and close."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        writer.write(response)
        await writer.drain()
        writer.write_eof()
        await reader.read()

    return script


async def silent(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a request and never answer."""
    await receiver.read(reader)
    await reader.read()


def request(
    url: str,
    *,
    body: bytes = b'{"a": 1}',
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),),
    timeout: float = 5.0,
    networks: Networks = LOOPBACK,
) -> Request:
    return Request(Destination.parse(url, networks=networks), headers, body, timeout)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what the event loop brings about in a moment."""
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.001)
