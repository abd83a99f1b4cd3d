"""What does a request cost: with our sender, and with a bare aiohttp loop that posts the same to the same sink?

The sink is a process of its own that answers 200 and does nothing else. Both clients run on uvloop with as many
requests in flight, over kept connections, in turns; each counts with the best of its rounds. Ours does all that the
service needs of it: the deadline, the vetted address, the bounds of the response.

And what does a new connection cost with TLS: with a full handshake, and with a session that is resumed?
"""

from __future__ import annotations

import asyncio
import multiprocessing
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from time import perf_counter, process_time
from typing import NamedTuple, cast

import aiohttp
import trustme
import uvloop

from benchmarks.report import Bar, Report, progress, table
from hookfuse.core.addresses import Networks
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request
from hookfuse.transport import HttpSender, Limits

ROUNDS = 40
REQUESTS = 1_920
IN_FLIGHT = 64
TLS_ROUNDS = 20
TLS_REQUESTS = 64
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

_LAST_ANSWER = _ANSWER.replace(b"\r\n", b"\r\nconnection: close\r\n", 1)

_NOTES = f"""\
Microseconds per request, the best of {ROUNDS} rounds of {REQUESTS:,} requests with {IN_FLIGHT} in flight, each with a
body of {len(BODY):,} bytes and {len(HEADERS)} headers. By the wall, the sink and the kernel are in it, and a client
can be no faster than they are; by the processor, only what the client's own process took.

With TLS 1.3 each request goes over a new connection: the best of {TLS_ROUNDS} rounds of {TLS_REQUESTS}."""

_NETWORKS = Networks(allowed=("127.0.0.1/32",))

Post = Callable[[], Awaitable[int | None]]


@dataclass
class Client:
    name: str
    post: Post
    requests: int = REQUESTS
    walls: list[float] = field(default_factory=list)
    processors: list[float] = field(default_factory=list)

    async def round(self) -> None:
        wall, processor = perf_counter(), process_time()
        await asyncio.gather(*(self._several(self.requests // IN_FLIGHT) for _ in range(IN_FLIGHT)))
        self.walls.append((perf_counter() - wall) / self.requests)
        self.processors.append((process_time() - processor) / self.requests)

    async def _several(self, count: int) -> None:
        for _ in range(count):
            status = await self.post()
            assert status == 200, f"{self.name} got {status}."


def main() -> Report:
    with _sink() as sink, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        ours, theirs = runner.run(_measure(sink.port))
        resumed, full = runner.run(_measure_tls(sink))
    by_wall = min(theirs.walls) / min(ours.walls)
    tables = [
        table(["time of a request", "wall", "processor"], _rows(ours, theirs)),
        table(["with a new connection and TLS", "wall", "processor"], _rows(resumed, full)),
    ]
    claim = f"at least {TIMES_AS_FAST:g} times as fast as a bare aiohttp loop, by the wall"
    bars = [Bar(claim, f"{by_wall:.2f}x", by_wall >= TIMES_AS_FAST)]
    return Report(tables, _NOTES, bars)


def _rows(one: Client, other: Client) -> list[list[str]]:
    rows = [
        [client.name, *(f"{min(times) * 1e6:.1f}" for times in (client.walls, client.processors))]
        for client in (one, other)
    ]
    ratios = (min(slow) / min(fast) for slow, fast in ((other.walls, one.walls), (other.processors, one.processors)))
    return [*rows, ["times as fast", *(f"{ratio:.2f}x" for ratio in ratios)]]


async def _measure(port: int) -> tuple[Client, Client]:
    url = f"http://127.0.0.1:{port}/hook"
    sender = HttpSender(_NETWORKS)

    async with aiohttp.ClientSession() as session:

        async def theirs() -> int | None:
            async with session.post(url, data=BODY, headers=HEADERS) as response:
                await response.read()
                return response.status

        clients = Client("hookfuse", _posting(sender, url)), Client("aiohttp", theirs)
        for done in range(ROUNDS):
            progress("sender, rounds", done, ROUNDS)
            for client in clients:
                await client.round()
        progress("sender, rounds", ROUNDS, ROUNDS)
    await sender.close()
    return clients


async def _measure_tls(sink: Sink) -> tuple[Client, Client]:
    url = f"https://127.0.0.1:{sink.tls_port}/hook"
    context = ssl.create_default_context(cadata=sink.root)
    senders = (
        HttpSender(_NETWORKS, ssl_context=context),
        HttpSender(_NETWORKS, ssl_context=context, limits=Limits(sessions=0)),
    )
    clients = (
        Client("a session that is resumed", _posting(senders[0], url), TLS_REQUESTS),
        Client("a full handshake", _posting(senders[1], url), TLS_REQUESTS),
    )
    await clients[0].post()
    for done in range(TLS_ROUNDS):
        progress("sender, rounds with TLS", done, TLS_ROUNDS)
        for client in clients:
            await client.round()
    progress("sender, rounds with TLS", TLS_ROUNDS, TLS_ROUNDS)
    for sender in senders:
        await sender.close()
    return clients


def _posting(sender: HttpSender, url: str) -> Post:
    request = Request(Destination.parse(url, networks=_NETWORKS), tuple(HEADERS.items()), BODY, 30.0)

    async def post() -> int | None:
        return (await sender.send(request)).status

    return post


class Sink(NamedTuple):
    port: int
    tls_port: int
    root: str


class _Answering(asyncio.Protocol):
    """Answers every request of which the head and BODY have arrived."""

    def __init__(self, answer: bytes = _ANSWER) -> None:
        self._answer = answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._pending = b""

    def data_received(self, data: bytes) -> None:
        self._pending = pending = self._pending + data if self._pending else data
        if pending.find(b"\r\n\r\n", 0, -len(BODY)) > 0:
            self._pending = b""
            self._transport.write(self._answer)


@contextmanager
def _sink() -> Iterator[Sink]:
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
        authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.create_child_ca().issue_cert("127.0.0.1").configure_cert(context)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(_Answering, "127.0.0.1", 0)
        tls_server = await loop.create_server(lambda: _Answering(_LAST_ANSWER), "127.0.0.1", 0, ssl=context)
        ports = [each.sockets[0].getsockname()[1] for each in (server, tls_server)]
        pipe.send(Sink(ports[0], ports[1], authority.cert_pem.bytes().decode()))
        await server.serve_forever()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve())
