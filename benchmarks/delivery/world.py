"""What the parts stand on: a sink in a process of its own, databases that sync, and a station with many endpoints."""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import asyncpg  # type: ignore[import-untyped]
import redis
import uvloop

from benchmarks.shared.server import running as running_redis
from hookfuse.app.station import Station, StationSettings
from hookfuse.core.addresses import Networks
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.core.secret import Secret, SecretRing
from hookfuse.delivery.accept import Acceptor
from hookfuse.delivery.worker import WorkerSettings
from hookfuse.ports import DeliveryStore
from tests.servers.postgres import Server as PostgresServer

T = TypeVar("T")

NETWORKS = Networks(allowed=("127.0.0.1/32",))
BODY = b"x" * 1_024
CALLERS = 100
SECRET = Secret(bytes(range(32)))


@dataclass(frozen=True)
class Place:
    """Where a station lives: its database, its breakers, its master key."""

    name: str
    database: str
    redis: str | None
    key_file: Path

    def settings(self, **worker: float) -> StationSettings:
        return StationSettings(
            self.database,
            self.key_file,
            self.redis,
            NETWORKS,
            WorkerSettings(**worker),  # type: ignore[arg-type]
        )


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(coroutine)


def app_id(number: int) -> str:
    return make_id(IdKind.APP, number, bytes(ENTROPY_BYTES))


async def settle_in(station: Station, urls: Sequence[str], **settings: Any) -> None:
    """An application with one endpoint for each URL."""
    ring = json.dumps(SecretRing(SECRET).to_data()).encode()
    for number, url in enumerate(urls):
        id_ = make_id(IdKind.ENDPOINT, number, bytes(ENTROPY_BYTES))
        await station.store.add_application(Application(app_id(number), "bench"))
        sealed = station.sealer.seal(ring, id_.encode())
        await station.store.add_endpoint(Endpoint(id_, app_id(number), url, secret=sealed, **settings))


def message(app: str) -> NewMessage:
    entropy = random.randbytes(ENTROPY_BYTES)
    return NewMessage(make_id(IdKind.MESSAGE, int(time.time() * 1000), entropy), app, "invoice.paid", BODY)


async def produce(acceptor: Acceptor, apps: Sequence[str], count: int, callers: int = CALLERS) -> None:
    """Callers that each wait for their answer before they send the next."""
    numbers = iter(range(count))

    async def one() -> None:
        for number in numbers:
            answer = await acceptor.accept(message(apps[number % len(apps)]))
            assert isinstance(answer, Accepted)

    await asyncio.gather(*(one() for _ in range(callers)))


@asynccontextmanager
async def opened(store: DeliveryStore) -> AsyncIterator[DeliveryStore]:
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@contextmanager
def places() -> Iterator[list[Place]]:
    """A SQLite file with breakers of its process, and a Postgres with a Redis; both sync commits as they always do."""
    with tempfile.TemporaryDirectory(prefix="hookfuse-bench-") as folder, running_redis() as redis_url:
        server = PostgresServer({"fsync": "on", "shared_buffers": "256MB", "max_wal_size": "4GB"})
        server.start()
        key_file = Path(folder) / "master.key"
        try:
            yield [
                Place("SQLite", f"sqlite://{folder}/bench.db", None, key_file),
                Place("Postgres", server.url, redis_url, key_file),
            ]
        finally:
            server.remove()


async def emptied(place: Place) -> Place:
    """The same place with nothing in it."""
    if place.database.startswith("sqlite"):
        for file in Path(place.database.removeprefix("sqlite://")).parent.glob("bench.db*"):
            file.unlink()
        return place
    connection = await asyncpg.connect(place.database)
    try:
        await connection.execute("DROP SCHEMA IF EXISTS hookfuse CASCADE")
    finally:
        await connection.close()
    if place.redis is not None:
        with redis.Redis.from_url(place.redis) as client:
            client.flushall()
    return place
