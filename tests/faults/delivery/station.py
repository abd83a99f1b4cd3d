"""A station as a process of its own: accepts messages at a socket, works, or both.

    python -m tests.faults.delivery.station '{"database": "sqlite:///…", …}'

A client writes lines of JSON (`key`, `payload`) and reads one for each (`id`, or `error`), as it would over HTTP.
What a worker has to say goes to a file of events; SIGUSR1 has it tell of its breakers. SIGTERM ends it in good order.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from hookfuse.app.station import Station, StationSettings
from hookfuse.core.addresses import Networks
from hookfuse.core.delivery import Claim
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.core.notice import QUIET_MS, STAGES_MS, Event
from hookfuse.core.paging import Span
from hookfuse.core.secret import Secret, SecretRing
from hookfuse.delivery.notify import NotifySettings
from hookfuse.delivery.notify_addresses import Addresses, NoticeDefaults
from hookfuse.delivery.worker import WorkerSettings
from hookfuse.errors import StoreError
from hookfuse.transport import Limits
from tests.faults.delivery.points import arm, reach

APP = "app_1"
_LONGEST_LINE = 1 << 22
_MOST_ENDPOINTS = 10_000


@dataclass(frozen=True, slots=True)
class Orders:
    """What the process is told."""

    database: str
    key_file: str
    events: str
    socket: str | None = None
    """Where it accepts messages; None: it does not."""
    works: bool = True
    redis: str | None = None
    worker: dict[str, Any] = field(default_factory=dict)
    told: str | None = None
    """Where it says what happened, with the secret after a space; None: nowhere."""
    hears: tuple[str, ...] = (Event.ENDPOINT_DISABLED,)
    """Of what it says it."""
    quiet_ms: int = QUIET_MS
    stages_ms: tuple[int, ...] = STAGES_MS

    def settings(self) -> StationSettings:
        return StationSettings(
            self.database,
            Path(self.key_file),
            redis=self.redis,
            networks=Networks(allowed=("127.0.0.0/8",)),
            worker=WorkerSettings(**self.worker),
            limits=Limits(idle_seconds=1.0),
            notices=self._notices(),
            # One notice at a time: at a point of one, no other is half told.
            notify=NotifySettings(slots=1, lease=4.0, poll=0.05, look_every=0.5, stages_ms=self.stages_ms),
        )

    def _notices(self) -> NoticeDefaults:
        if self.told is None:
            return NoticeDefaults()
        url, secret = self.told.split()
        addresses = Addresses(url, SecretRing(Secret.parse(secret)))
        return NoticeDefaults(addresses, tuple(map(Event, self.hears)), self.quiet_ms)

    def text(self) -> str:
        return json.dumps(asdict(self))


class Events:
    """Lines of JSON that survive a kill."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def add(self, event: str, **facts: object) -> None:
        line = json.dumps({"event": event, "pid": os.getpid(), "at": time.time(), **facts})
        os.write(self._file, line.encode() + b"\n")

    def lost(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self.add("lost", message=claim.message_id, endpoint=claim.endpoint_id)

    def suspect(self, suspect: bool) -> None:
        self.add("suspect", suspect=suspect)


def new_message(key: str, payload: bytes) -> NewMessage:
    id_ = make_id(IdKind.MESSAGE, int(time.time() * 1000), os.urandom(ENTROPY_BYTES))
    return NewMessage(
        id_, APP, "invoice.paid", payload, idempotency_key=key, fingerprint=hashlib.sha256(payload).digest()
    )


async def answer(station: Station, line: bytes) -> dict[str, Any]:
    asked = json.loads(line)
    try:
        answered = await station.acceptor.accept(new_message(asked["key"], asked["payload"].encode()))
    except StoreError as error:
        return {"n": asked["n"], "error": str(error)}
    if isinstance(answered, Accepted):
        return {"n": asked["n"], "id": answered.id}
    return {"n": asked["n"], "refused": answered.reason}


class Counter:
    """Where messages are handed in."""

    def __init__(self, station: Station) -> None:
        self._station = station
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            task = asyncio.create_task(self._reply(line, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _reply(self, line: bytes, writer: asyncio.StreamWriter) -> None:
        reply = await answer(self._station, line)
        reach("before_reply")
        writer.write(json.dumps(reply).encode() + b"\n")


async def run(orders: Orders) -> None:
    events = Events(orders.events)
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    station = Station(orders.settings(), on_lost=events.lost, on_suspect=events.suspect)
    async with station, station.leader:
        ends: list[Callable[[], None]] = [ended.set]
        tasks: list[asyncio.Task[Any]] = [asyncio.create_task(ended.wait())]
        if orders.works:
            tasks.append(asyncio.create_task(station.worker.run()))
            ends.append(station.worker.stop)
        if orders.socket is not None:
            serve = Counter(station).serve
            # Kept: a server that nobody refers to is closed with the next collection of garbage.
            counter = await asyncio.start_unix_server(serve, orders.socket, limit=_LONGEST_LINE)
            ends.append(counter.close)
        loop.add_signal_handler(signal.SIGTERM, functools.partial(_end, events, ends))
        loop.add_signal_handler(signal.SIGUSR1, lambda: tasks.append(loop.create_task(_tell_breakers(station, events))))
        loop.add_reader(sys.stdin, _end_with_parent)
        events.add("ready")
        await asyncio.gather(*tasks)
    events.add("ended")


async def _tell_breakers(station: Station, events: Events) -> None:
    """What each breaker has come to in this process: without Redis nobody else can be asked."""
    endpoints = await station.store.endpoints_page(APP, Span(_MOST_ENDPOINTS))
    found = [await station.breakers.inspect(endpoint.key) for endpoint in endpoints]
    events.add("breakers", breakers=[{"state": each.state, **each.totals._asdict()} for each in found])


def _end_with_parent() -> None:
    """Nothing is ever written to our input: it ends when the test does, however that ends."""
    os._exit(1)


def _end(events: Events, ends: Sequence[Callable[[], None]]) -> None:
    events.add("asked_to_end")
    for end in ends:
        end()


def main() -> None:
    orders = Orders(**json.loads(sys.argv[1]))
    arm(os.environ.get("HOOKFUSE_TEST_STOP", ""))
    try:
        uvloop.run(run(orders))
    except StoreError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
