"""A database that is locked, busy, or somebody else's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import apsw
import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.delivery.accept import Acceptor
from hookfuse.errors import StoreUnavailable
from hookfuse.testing.receivers import Ok
from tests.faults.delivery.databases import Database, SqliteDatabase, messages
from tests.faults.delivery.site import Site, counter, working
from tests.faults.delivery.station import new_message

pytestmark = pytest.mark.anyio

LONGEST_WAIT = 5.0


@asynccontextmanager
async def locked(database: Database) -> AsyncIterator[None]:
    """Nobody else can store anything meanwhile."""
    if isinstance(database, SqliteDatabase):
        db = apsw.Connection(str(database.path))
        db.set_busy_timeout(5_000)
        db.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            db.close()
        return
    connection = await asyncpg.connect(database.url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE hookfuse.deliveries IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def test_d5_locked_for_long(site: Site) -> None:
    """While a table stays locked every client has an answer within five seconds, and then all goes on."""
    await site.alike()
    producer = site.producer()
    async with site.station() as station, working(station.worker):
        async with locked(site.database):
            producing = [asyncio.create_task(producer.send([counter(station)], 20))]
            await asyncio.sleep(0.5)  # the next clients come while the first ones wait
            producing.append(asyncio.create_task(producer.send([counter(station)], 20)))
            await asyncio.sleep(site.sizes.locked - 0.5)
            assert producer.produced == []
        await asyncio.gather(*producing)
        await site.rest()
    assert producer.unavailable > 0
    assert producer.slowest <= LONGEST_WAIT, f"a client waited {producer.slowest:.2f} s"
    report = await site.report(producer)
    assert report.sound, report


async def test_d5_deadlock(site: Site) -> None:
    """A deadlock with somebody else's transaction is over soon, costs no client its message, and doubles nothing."""
    if not site.database.shared:
        pytest.skip("SQLite has one writer")
    await site.endpoints({"ep_1": Ok(), "ep_2": Ok()}, cap=8)
    producer = site.producer()
    connection = await asyncpg.connect(site.database.url)
    lock = "SELECT 1 FROM hookfuse.lanes WHERE endpoint_id = '{}' FOR UPDATE"
    async with site.station() as station, working(station.worker):
        producing = asyncio.create_task(producer.send([counter(station)], site.sizes.messages))
        for _ in range(3):
            with suppress(asyncpg.DeadlockDetectedError):
                async with connection.transaction():
                    await connection.execute(lock.format("ep_2"))
                    await asyncio.sleep(0.1)
                    await connection.execute(lock.format("ep_1"))
        await producing
        await site.rest()
    await connection.close()
    report = await site.report(producer)
    assert report.sound, report


async def test_d9_more_than_the_store_takes(site: Site) -> None:
    """A flood is shed at once with a sentence, while what was accepted is sent and settled."""
    await site.endpoints({"ep_1": Ok()}, cap=8)
    async with site.station() as station, working(station.worker):
        acceptor = Acceptor(station.store, most_waiting=50)
        asked = [
            asyncio.create_task(acceptor.accept(new_message(f"key-{number}", b"%d" % number)))
            for number in range(2_000)
        ]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await acceptor.close()
        shed = [answer for answer in answers if isinstance(answer, StoreUnavailable)]
        assert len(shed) >= 1_900
        assert await messages(site.database) == 2_000 - len(shed)
        await site.rest()


async def test_d9_every_connection_busy(site: Site) -> None:
    """With every connection for accepting taken, clients are told so soon, and settling goes on."""
    if not site.database.shared:
        pytest.skip("SQLite has no pool of connections")
    await site.endpoints({"ep_1": Ok()}, cap=8)
    producer = site.producer()
    async with site.station() as station, working(station.worker):
        await producer.send([counter(station)], 50)
        async with _keys_locked(site):
            taken = [asyncio.create_task(station.store.accept([new_message("held", b"held")])) for _ in range(6)]
            with pytest.raises(StoreUnavailable):
                await asyncio.wait_for(station.store.accept([new_message("more", b"more")]), LONGEST_WAIT)
            await site.rest()
        await asyncio.gather(*taken, return_exceptions=True)


@asynccontextmanager
async def _keys_locked(site: Site) -> AsyncIterator[None]:
    connection = await asyncpg.connect(site.database.url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE hookfuse.idempotency_keys IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def test_d11_a_second_process_is_refused(site: Site) -> None:
    """A second process on the same file does not start, and says why; the first one does not notice."""
    if site.database.shared:
        pytest.skip("Postgres serves many processes")
    await site.alike()
    first, second = site.process(), site.process()
    await first.start()
    await second.start()
    assert await second.ended(20) == 1
    assert "SQLite serves one process" in second.said()
    producer = site.producer()
    await producer.send([first.ask], 20)
    await site.rest()
    report = await site.report(producer)
    assert report.sound, report


async def test_d11_a_long_reader(site: Site) -> None:
    """Somebody who reads the file for long, as a backup does, is noticed by no client."""
    if not isinstance(site.database, SqliteDatabase):
        pytest.skip("this is about SQLite")
    await site.alike()
    producer = site.producer()
    reader = apsw.Connection(str(site.database.path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM messages").fetchall()
        async with site.station() as station, working(station.worker):
            await producer.send([counter(station)], 4 * site.sizes.messages)
            await site.rest()
    finally:
        reader.close()
    assert producer.unavailable == 0
    report = await site.report(producer)
    assert report.sound, report
