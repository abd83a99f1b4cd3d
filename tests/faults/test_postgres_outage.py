"""What callers see when Postgres restarts, hangs, is locked or has no connection to spare."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.core.delivery import Chosen, DeliveryState
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.errors import InvalidInput, StoreError, StoreUnavailable
from hookfuse.stores.postgres import PostgresStore
from hookfuse.stores.postgres.translate import translated
from tests.servers.postgres import Server, serving
from tests.unit.stores.postgres_scene import execute, opened, prepare, sent
from tests.unit.stores.postgres_scene import message as numbered

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

NUMBERS = iter(range(1 << 40))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving({"fsync": "on"}) as server:
        yield server


@asynccontextmanager
async def standing(url: str, **settings: Any) -> AsyncIterator[PostgresStore]:
    """A store with one wide lane."""
    await prepare(url, lanes=1, cap=1000)
    async with opened(url, **settings) as store:
        yield store


@asynccontextmanager
async def locked(url: str, table: str, mode: str) -> AsyncIterator[None]:
    """Somebody holds a table."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE hookfuse.{table} IN {mode} MODE")
            yield
    finally:
        await connection.close()


def message() -> NewMessage:
    return numbered(next(NUMBERS))


async def refusal(call: Awaitable[object]) -> float:
    """How long it took to say that the store is not available."""
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await call
    return time.monotonic() - began


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_restart_in_mid_load(server: Server, mode: Literal["fast", "immediate"], anyio_backend: str) -> None:
    """Whatever was told to be accepted is there after a restart, and the store is usable again within five seconds."""
    accepted: list[str] = []
    settled: list[str] = []
    stopped = asyncio.Event()

    async def produce(store: PostgresStore) -> None:
        while not stopped.is_set():
            try:
                answers = await store.accept([message() for _ in range(5)])
                accepted.extend(answer.id for answer in answers if isinstance(answer, Accepted))
            except StoreUnavailable:
                await asyncio.sleep(0.01)

    async def deliver(store: PostgresStore) -> None:
        while not stopped.is_set():
            try:
                found = await store.claim(20, lease_ms=600_000, failing_limit=20)
                stale = {claim.message_id for claim in await store.settle([sent(claim) for claim in found.claims])}
                settled.extend(claim.message_id for claim in found.claims if claim.message_id not in stale)
            except StoreUnavailable:
                await asyncio.sleep(0.01)

    async with standing(server.url) as store:
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(produce(store))
            group.create_task(deliver(store))
            while len(settled) < 100:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(server.stop, mode)
            before = len(accepted), len(settled)
            await asyncio.to_thread(server.start)
            began = time.monotonic()
            while len(accepted) == before[0] or len(settled) == before[1]:
                await asyncio.sleep(0.01)
            assert time.monotonic() - began < 5
            stopped.set()
        rows = await execute(server.url, "SELECT message_id, state FROM hookfuse.deliveries")
    states = {row["message_id"]: row["state"] for row in rows}
    assert set(accepted) <= states.keys()
    assert {states[id_] for id_ in settled} == {"sent"}


async def test_cut_connections(postgres_url: str, anyio_backend: str) -> None:
    """Connections that are cut in the middle of anything never make a false acceptance."""
    accepted: list[str] = []
    ends = time.monotonic() + 3

    async def produce(store: PostgresStore) -> None:
        while time.monotonic() < ends:
            try:
                answers = await store.accept([message() for _ in range(20)])
                accepted.extend(answer.id for answer in answers if isinstance(answer, Accepted))
            except StoreUnavailable:
                pass

    async def cut() -> None:
        while time.monotonic() < ends:
            await asyncio.sleep(random.uniform(0, 0.02))
            await execute(
                postgres_url,
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'hookfuse accept' AND datname = current_database()",
            )

    async with standing(postgres_url) as store, asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(produce(store))
        group.create_task(cut())
    stored = {row["id"] for row in await execute(postgres_url, "SELECT id FROM hookfuse.messages")}
    assert accepted
    assert set(accepted) <= stored


async def test_a_locked_table(postgres_url: str, anyio_backend: str) -> None:
    """While somebody holds a table every call ends within five seconds; then all is well again."""
    async with standing(postgres_url) as store:
        await store.accept([message(), message()])
        (claim, _) = (await store.claim(2, lease_ms=60_000, failing_limit=2)).claims
        async with (
            locked(postgres_url, "lanes", "ACCESS EXCLUSIVE"),
            locked(postgres_url, "messages", "ACCESS EXCLUSIVE"),
        ):
            took = await asyncio.gather(
                refusal(store.accept([message()])),
                refusal(store.claim(1, lease_ms=60_000, failing_limit=1)),
                refusal(store.settle([sent(claim)])),
                refusal(store.message("app_1", claim.message_id)),
            )
        assert max(took) < 5
        assert await store.settle([sent(claim)]) == []


async def test_a_silent_server(postgres_url: str, anyio_backend: str) -> None:
    """A server that stops answering is given up at the deadline, and found again when it goes on."""
    async with standing(postgres_url, deadline=1.0) as store:
        await store.accept([message()])
        (claim,) = (await store.claim(1, lease_ms=60_000, failing_limit=1)).claims
        rows = await execute(
            postgres_url,
            "SELECT pid FROM pg_stat_activity"
            " WHERE application_name = 'hookfuse deliver' AND datname = current_database()",
        )
        for row in rows:
            os.kill(row["pid"], signal.SIGSTOP)
        try:
            assert await refusal(store.settle([sent(claim)])) < 2
        finally:
            for row in rows:
                os.kill(row["pid"], signal.SIGCONT)
        # It was asked before it went silent, so it may have been done: said once, and never twice.
        stale = await store.settle([sent(claim)])
        assert stale in ([], [claim])
        assert await store.count(Chosen("app_1", states=(DeliveryState.SENT,))) == 1


async def test_a_server_that_never_greets(anyio_backend: str) -> None:
    """Opening a store on something that accepts connections and says nothing ends at the deadline."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        store = PostgresStore(f"postgresql://x@127.0.0.1:{port}/x?sslmode=disable", deadline=0.3)
        assert await refusal(store.open()) < 2


async def test_accepting_sheds_and_settling_goes_on(postgres_url: str, anyio_backend: str) -> None:
    """With every connection for accepting in use, more is refused within moments while workers go on undisturbed."""
    async with standing(postgres_url, pool_size=2) as store:
        await store.accept([message() for _ in range(50)])
        async with locked(postgres_url, "messages", "SHARE"):
            stuck = [asyncio.ensure_future(store.accept([message()])) for _ in range(2)]
            await asyncio.sleep(0)
            shed = [asyncio.ensure_future(refusal(store.accept([message()]))) for _ in range(20)]
            delivered = 0
            while delivered < 50:
                found = await store.claim(5, lease_ms=60_000, failing_limit=5)
                assert await store.settle([sent(claim) for claim in found.claims]) == []
                delivered += len(found.claims)
            assert max(await asyncio.gather(*shed)) < 2
            assert not any(each.done() for each in stuck)
        for answers in await asyncio.gather(*stuck):
            assert isinstance(answers[0], Accepted)


async def test_a_cancelled_call_harms_nobody(postgres_url: str, anyio_backend: str) -> None:
    """A caller that goes away in the middle leaves no transaction open and no connection unusable."""
    async with standing(postgres_url, pool_size=1) as store:
        async with locked(postgres_url, "messages", "SHARE"):
            call = asyncio.ensure_future(store.accept([message()]))
            while not await execute(postgres_url, "SELECT 1 FROM pg_locks WHERE NOT granted"):
                await asyncio.sleep(0.01)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        (answer,) = await store.accept([message()])
        assert isinstance(answer, Accepted)


async def test_values_that_do_not_fit(postgres_url: str, anyio_backend: str) -> None:
    """A value that Postgres cannot hold is refused as such, and leaves the store usable."""
    async with standing(postgres_url) as store:
        for text in ("nul \x00", "half \ud800"):
            with pytest.raises(InvalidInput, match="cannot hold"):
                await store.application(text)
            with pytest.raises(InvalidInput, match="cannot hold"):
                await store.unblock([text])
        with pytest.raises(InvalidInput, match="cannot hold"):
            await store.older(1 << 70)
        assert await store.application("app_2") is None


async def test_no_row_is_shown(postgres_url: str, anyio_backend: str) -> None:
    """What Postgres says of a row that it refuses is told without the row, which may hold secrets."""
    async with standing(postgres_url):
        with pytest.raises(asyncpg.NotNullViolationError) as refused:
            await execute(postgres_url, "INSERT INTO hookfuse.applications (id, uid) VALUES ('app_2', 'confidential')")
    assert "confidential" in str(refused.value)
    told = translated(refused.value)
    assert isinstance(told, StoreError)
    assert "name" in str(told)
    assert "confidential" not in str(told)


async def test_what_is_wrong_is_said(postgres_url: str, anyio_backend: str) -> None:
    """A closed store, a missing database and a newer schema are told apart, each in a sentence."""
    store = PostgresStore(postgres_url)
    with pytest.raises(StoreUnavailable, match="not open"):
        await store.application("app_1")
    with pytest.raises(StoreError, match="does not exist"):
        await PostgresStore(postgres_url + "_none").open()
    async with standing(postgres_url):
        await execute(postgres_url, "INSERT INTO hookfuse.migrations VALUES (9999, 'of the future', 0)")
    with pytest.raises(StoreError, match="newer Hookfuse"):
        await store.open()
