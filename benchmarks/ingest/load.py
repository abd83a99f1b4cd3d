"""Producers over HTTP: connections that each wait for the answer to a message before they send the next.

Written for this alone, so that it takes little of the machine from those who are measured.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import cast

CONNECTIONS = 64
_BODY = json.dumps({"eventType": "invoice.paid", "payload": {"text": "x" * 1_000}}).encode()
_ACCEPTED = b"HTTP/1.1 202 "
_MARK = b"KKKKKKKKKKKKKKKK"


@dataclass
class Taken:
    """How long each answer took."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """In milliseconds."""
        ordered = sorted(self.latencies)
        return ordered[int(len(ordered) * share)] * 1000


async def post(
    port: int,
    key: str,
    apps: Sequence[str],
    count: int,
    room: Callable[[], bool] = lambda: True,
    connections: int = CONNECTIONS,
) -> Taken:
    """Send so many messages, each with an idempotency key of its own; while there is no `room`, nobody sends."""
    taken = Taken()
    loop = asyncio.get_running_loop()
    requests = _requests(key, apps, count)
    crowd = [_Producer(requests, taken.latencies, room) for _ in range(connections)]
    started = perf_counter()
    for each in crowd:
        await loop.create_connection(lambda each=each: each, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*(each.done for each in crowd))
    taken.seconds = perf_counter() - started
    return taken


def _requests(key: str, apps: Sequence[str], count: int) -> Iterator[bytes]:
    made = [
        f"POST /api/v1/app/{app}/msg?with_content=false HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\nidempotency-key: auto_{_MARK.decode()}\r\n"
        f"content-length: {len(_BODY)}\r\n\r\n".encode()
        + _BODY
        for app in apps
    ]
    first = int(perf_counter() * 1e6)
    return (made[n % len(made)].replace(_MARK, b"%016d" % (first + n)) for n in range(count))


class _Producer(asyncio.Protocol):
    def __init__(self, requests: Iterator[bytes], latencies: list[float], room: Callable[[], bool]) -> None:
        self._requests = requests
        self._latencies = latencies
        self._room = room
        self._answer = b""
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("The server closed the connection."))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, ended, body = self._answer.partition(b"\r\n\r\n")
        if not ended or len(body) < _length(head):
            return
        if not self._answer.startswith(_ACCEPTED):
            self.done.set_exception(AssertionError(self._answer[:300]))
            self._transport.close()
            return
        self._latencies.append(perf_counter() - self._at)
        self._answer = b""
        self._send()

    def _send(self) -> None:
        if not self._room():
            self._loop.call_later(0.002, self._send)
            return
        request = next(self._requests, None)
        if request is None:
            self.done.set_result(None)
            self._transport.close()
            return
        self._at = perf_counter()
        self._transport.write(request)


def _length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length: ")
    return int(rest.split(b"\r\n", 1)[0])
