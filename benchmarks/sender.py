"""What does a request cost: with our sender, and with a bare aiohttp loop that posts the same to the same sink?

The sink is a process of its own that answers 200 and does nothing else. Both clients run on uvloop with as many
requests in flight, over kept connections, in turns; each counts with the best of its rounds. Ours does all that the
service needs of it: the deadline, the vetted address, the bounds of the response.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import cast

import aiohttp
import uvloop

from benchmarks.report import Bar, Report, progress, table
from hookfuse.core.addresses import Networks
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request
from hookfuse.transport import HttpSender

ROUNDS = 40
REQUESTS = 1_920
IN_FLIGHT = 64
BODY = b"x" * 1_024
TIMES_AS_FAST = 4.0

HEADERS = {
    "content-type": "application/json",
    "user-agent": "hookfuse-benchmark",
    "webhook-id": "msg_2b1cX7tR0uQ4nD8s",
    "webhook-timestamp": "1700000000",
    "webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
}
_ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok"

_NOTES = f"""\
Microseconds per request, the best of {ROUNDS} rounds of {REQUESTS:,} requests with {IN_FLIGHT} in flight, each with a
body of {len(BODY):,} bytes and {len(HEADERS)} headers. By the wall, the sink and the kernel are in it, and a client
can be no faster than they are; by the processor, only what the client's own process took."""

Post = Callable[[], Awaitable[int | None]]


@dataclass
class Client:
    name: str
    post: Post
    walls: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)

    async def round(self) -> None:
        wall, processor = perf_counter(), process_time()
        await asyncio.gather(*(self._several(REQUESTS // IN_FLIGHT) for _ in range(IN_FLIGHT)))
        self.walls.append((perf_counter() - wall) / REQUESTS)
        self.processors.append((process_time() - processor) / REQUESTS)

    async def _several(self, count: int) -> None:
        for _ in range(count):
            status = await self.post()
            assert status == 200, f"{self.name} got {status}."


def main() -> Report:
    with _sink() as port, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ours, theirs = runner.run(_measure(port))
    by_wall, by_processor = min(theirs.walls) / min(ours.walls), min(theirs.processors) / min(ours.processors)
    rows = [
        [client.name, *(f"{min(times) * 1e6:.1f}" for times in (client.walls, client.processors))]
        for client in (ours, theirs)
    ]
    rows.append(["times as fast", f"{by_wall:.2f}x", f"{by_processor:.2f}x"])
    claim = f"at least {TIMES_AS_FAST:g} times as fast as a bare aiohttp loop, by the wall"
    bars = [Bar(claim, f"{by_wall:.2f}x", by_wall >= TIMES_AS_FAST)]
    return Report([table(["time of a request", "wall", "processor"], rows)], _NOTES, bars)


async def _measure(port: int) -> tuple[Client, Client]:
    networks = Networks(allowed=("127.0.0.1/32",))
    url = f"http://127.0.0.1:{port}/hook"
    request = Request(Destination.parse(url, networks=networks), tuple(HEADERS.items()), BODY, 30.0)
    sender = HttpSender(networks)

    async def ours() -> int | None:
        return (await sender.send(request)).status

    async with aiohttp.ClientSession() as session:

        async def theirs() -> int | None:
            async with session.post(url, data=BODY, headers=HEADERS) as response:
                await response.read()
                return response.status

        clients = Client("hookfuse", ours), Client("aiohttp", theirs)
        for done in range(ROUNDS):
            progress("sender, rounds", done, ROUNDS)
            for client in clients:
                await client.round()
        progress("sender, rounds", ROUNDS, ROUNDS)
    await sender.close()
    return clients


class _Sink(asyncio.Protocol):
    """Answers every request of which the head and BODY have arrived."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pending = b""

    def data_received(self, data: bytes) -> None:
        self._pending = pending = self._pending + data if self._pending else data
        if pending.find(b"\r\n\r\n", 0, -len(BODY)) > 0:
            self._pending = b""
            self._transport.write(_ANSWER)


@contextmanager
def _sink() -> Iterator[int]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        here.close()
        process.terminate()
        process.join()


def _serve(pipe: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Sink, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
