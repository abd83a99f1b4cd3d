"""What is in the database before the program starts, and after it has ended."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import asyncpg  # type: ignore[import-untyped]

from hookfuse.app.first_start import make_folder
from hookfuse.app.parts import station_settings
from hookfuse.app.station import Station
from hookfuse.config import load
from hookfuse.core.delivery import Chosen, Delivery, DeliveryState
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.core.secret import Secret, SecretRing

T = TypeVar("T")

SECRET = Secret(bytes(range(32)))


def within(env: Mapping[str, str], job: Callable[[Station], Awaitable[T]]) -> T:
    """Open the database of these settings, do something, and close it."""
    settings = load(env).settings
    make_folder(settings)

    async def run() -> T:
        async with Station(station_settings(settings)) as station:
            return await job(station)

    return asyncio.run(run())


def seed(env: Mapping[str, str], urls: Mapping[str, str], **settings: Any) -> None:
    """An application `app_1` with an endpoint at each URL."""

    async def job(station: Station) -> None:
        await station.store.add_application(Application("app_1", "app_1"))
        ring = json.dumps(SecretRing(SECRET).to_data()).encode()
        for id_, url in urls.items():
            sealed = station.sealer.seal(ring, id_.encode())
            await station.store.add_endpoint(Endpoint(id_, "app_1", url, secret=sealed, **settings))

    within(env, job)


def send(env: Mapping[str, str], number: int) -> list[str]:
    """Accept so many messages; returns their ids."""

    async def job(station: Station) -> list[str]:
        answers = await asyncio.gather(*(station.acceptor.accept(message(each)) for each in range(number)))
        assert all(isinstance(answer, Accepted) for answer in answers)
        return [answer.id for answer in answers if isinstance(answer, Accepted)]

    return within(env, job)


def message(number: int) -> NewMessage:
    id_ = make_id(IdKind.MESSAGE, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
    return NewMessage(id_, "app_1", "order.paid", b'{"n": %d}' % number)


def deliveries(env: Mapping[str, str], *states: DeliveryState) -> Sequence[Delivery]:
    async def job(station: Station) -> Sequence[Delivery]:
        return await station.store.deliveries(Chosen("app_1", states=states or None), limit=100_000)

    return within(env, job)


def silence(url: str, pid: int) -> None:
    """Let a killed process have been silent for long enough to be called so, without waiting for it."""

    async def turn() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("UPDATE hookfuse.members SET heard_ms = heard_ms - 15000 WHERE pid = $1", pid)
        await connection.close()

    # Whoever calls may have an event loop of its own.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, turn()).result()
