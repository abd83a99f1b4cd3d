"""What tests of the Postgres store stand on: an open store, an application with wide lanes, a look past the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from hookfuse.core.delivery import Chosen, Claim, DeliveryState, Settlement
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.message import NewMessage
from hookfuse.stores.postgres import PostgresStore

OPEN = Chosen("app_1", states=(DeliveryState.PENDING, DeliveryState.SENDING))


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def prepare(url: str, *, lanes: int, cap: int = 32, messages: int = 0) -> None:
    """An application with wide lanes, and a delivery for each of them in every message."""
    async with opened(url) as store:
        await store.add_application(Application("app_1", "x"))
        for number in range(lanes):
            await store.add_endpoint(Endpoint(f"ep_{number:02}", "app_1", "https://example.com", cap=cap))
        await execute(url, "UPDATE hookfuse.lanes SET width = cap")
        await store.accept([message(number) for number in range(messages)])


async def execute(url: str, statement: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


async def until_someone_waits(connection: asyncpg.Connection) -> None:
    while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        await asyncio.sleep(0.01)


def message(number: int, **settings: Any) -> NewMessage:
    return NewMessage(f"msg_{number:06}", "app_1", "type", b"{}", **settings)


def sent(claim: Claim) -> Settlement:
    return Settlement(claim, DeliveryState.SENT, "", healthy=True)
