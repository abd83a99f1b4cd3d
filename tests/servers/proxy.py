"""A relay in front of a server, to break the way between it and its clients on purpose, and to mend it again.

    with Proxy("/run/redis.sock") as proxy:     # or Proxy(("127.0.0.1", 5432))
        client = connect("127.0.0.1", proxy.port)
        proxy.timeout()                         # ... and nobody hears anything any more
        proxy.heal()

It runs in a thread of its own, so that clients may be threads, tasks of any loop, or other processes. When a method
returns, what it says is so for every connection, old or new.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeAlias

Address: TypeAlias = str | tuple[str, int]
"""The path of a socket, or a host and a port."""

_CHUNK = 65_536
_AT_ONCE = struct.pack("ii", 1, 0)


class Proxy:
    """A TCP port of this machine that leads to `target`; without a fault every byte passes at once."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._links: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None
        self._resetting = False
        self._delay = 0.0
        self._requests, self._replies = asyncio.Event(), asyncio.Event()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.heal()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def heal(self) -> None:
        """No fault any more. What was held back arrives late, as it does in a network."""
        self._do(self._heal())

    def down(self) -> None:
        """Nobody is there: connections are closed, and new ones refused."""
        self._do(self._down())

    def timeout(self) -> None:
        """Connections are accepted and kept, but nothing passes in either direction."""
        self._do(self._hold(requests=True))

    def mute(self) -> None:
        """Requests arrive and are done, but nobody hears the answer."""
        self._do(self._hold(requests=False))

    def reset(self) -> None:
        """Connections are reset, and new ones as soon as they are made."""
        self._do(self._reset())

    def latency(self, seconds: float) -> None:
        """Every byte of an answer arrives so much later."""
        self._do(self._slow_down(seconds))

    def lead_to(self, target: Address) -> None:
        """Another server from now on: connections to the old one are closed."""
        self._do(self._lead_to(target))

    def _do(self, change: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(change, self._loop).result(10)

    async def _heal(self) -> None:
        self._resetting = False
        self._delay = 0.0
        self._requests.set()
        self._replies.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def _down(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None
        await self._cut()

    async def _hold(self, *, requests: bool) -> None:
        self._replies.clear()
        if requests:
            self._requests.clear()

    async def _reset(self) -> None:
        self._resetting = True
        for client in self._links.values():
            _abort(client)
        await self._cut()

    async def _slow_down(self, seconds: float) -> None:
        self._delay = seconds

    async def _lead_to(self, target: Address) -> None:
        self._target = target
        await self._cut()

    async def _cut(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._resetting:
            _abort(writer)
            return
        link = self._loop.create_task(self._link(reader, writer))
        self._links[link] = writer
        link.add_done_callback(self._links.pop)

    async def _link(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """One connection, until either side ends it."""
        writers = [to_client]
        try:
            server, to_server = await self._dial()
            writers.append(to_server)
            pumps = (self._pump(client, to_server, self._requests), self._pump(server, to_client, self._replies))
            running = [self._loop.create_task(pump) for pump in pumps]
            try:
                await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
        except OSError:
            # The server is not there, which its client learns from being cut off.
            pass
        finally:
            for writer in writers:
                writer.close()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, gate: asyncio.Event) -> None:
        """Carry bytes on when they are due and the gate is open; what is on its way does not stop what follows."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

        async def carry() -> None:
            while True:
                due, some = await under_way.get()
                await asyncio.sleep(max(due - self._loop.time(), 0))
                await gate.wait()
                if not some:
                    return
                sink.write(some)
                await sink.drain()

        carrying = self._loop.create_task(carry())
        try:
            some = b"the first"
            while some:
                some = await source.read(_CHUNK)
                delay = self._delay if gate is self._replies else 0.0
                under_way.put_nowait((self._loop.time() + delay, some))
            await carrying
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close at once, so that the other side gets a reset instead of an end."""
    connection: socket.socket | None = writer.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    writer.transport.abort()
