"""A database that is locked, busy, or somebody else's."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.app.station import Station
from hookfuse.core.message import Accepted
from hookfuse.delivery.accept import Acceptor
from hookfuse.errors import StoreUnavailable
from hookfuse.testing.receivers import Ok, Slow
from tests.faults.delivery.databases import Database, SqliteDatabase, dump, unfinished
from tests.faults.delivery.producer import Ask, Producer
from tests.faults.delivery.site import Site, counter, until, working
from tests.faults.delivery.station import new_message
from tests.ledgers import Told

pytestmark = pytest.mark.anyio

LONGEST_WAIT = 5.0
POOL = 4
"""Connections for accepting."""


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
    async with site.station() as station, working(station.worker):
        over = asyncio.Event()
        producing = asyncio.create_task(_keep_sending(producer, counter(station), over))
        connection = await asyncpg.connect(site.database.url)
        try:
            async with asyncio.timeout(site.sizes.patience):
                while await _deadlocks(site) < 2:
                    await _cross(connection)
        finally:
            over.set()
            await connection.close()
        await producing
        await site.rest()
    assert producer.slowest <= LONGEST_WAIT, f"a client waited {producer.slowest:.2f} s"
    report = await site.report(producer)
    assert report.sound, report


async def _keep_sending(producer: Producer, ask: Ask, over: asyncio.Event) -> None:
    """At a pace that one worker keeps up with."""
    while not over.is_set():
        await producer.send([ask], 2)
        await asyncio.sleep(0.02)


async def _cross(connection: asyncpg.Connection) -> None:
    """Take the second lane, wait until somebody wants it who may have the first, and want that."""
    lock = "SELECT 1 FROM hookfuse.lanes WHERE endpoint_id = '{}' FOR UPDATE"
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"
    with suppress(asyncpg.DeadlockDetectedError):
        async with connection.transaction():
            await connection.execute(lock.format("ep_2"))
            while not await connection.fetchval(waiting):
                await asyncio.sleep(0.01)
            await connection.execute(lock.format("ep_1"))


async def _deadlocks(site: Site) -> int:
    """In this database, which is the test's own; a server counts them a moment later."""
    rows = await site.database.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(rows[0][0])


async def test_d9_more_than_the_store_takes(site: Site) -> None:
    """A flood is shed at once with a sentence, while what was accepted is sent and settled, and nothing else."""
    await site.endpoints({"ep_1": Ok()}, cap=8)
    producer = site.producer()
    async with site.station() as station, working(station.worker):
        acceptor = Acceptor(station.store, most_waiting=50)
        flood = [new_message(f"key-{number}", b"%d" % number) for number in range(2_000)]
        asked = [asyncio.create_task(acceptor.accept(message)) for message in flood]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        await acceptor.close()
        await site.rest()
    for message, answer in zip(flood, answers, strict=True):
        assert isinstance(answer, Accepted | StoreUnavailable)
        producer.note(message.id, message.payload, Told.OK if isinstance(answer, Accepted) else Told.FAILED)
    assert Counter(each.told for each in producer.produced)[Told.FAILED] >= 1_900
    report = await site.report(producer)
    assert report.sound, report


async def test_d9_settled_in_the_flood(site: Site) -> None:
    """What is in flight when a flood comes is settled in the midst of it, not after it."""
    in_flight = 8
    await site.endpoints({"ep_1": Slow(0.5)}, cap=in_flight)
    producer = site.producer()
    async with site.station() as station, working(station.worker):
        await _widen(site, in_flight)
        await producer.send([counter(station)], in_flight)
        await until(lambda: site.receivers.counts["ep_1"].in_flight == in_flight)
        before = {each.id for each in producer.produced}
        acceptor = Acceptor(station.store, most_waiting=50)
        numbers, over = itertools.count(), asyncio.Event()

        async def flood() -> None:
            while not over.is_set():
                message = new_message(f"flood-{(number := next(numbers))}", b"%d" % number)
                try:
                    assert isinstance(await acceptor.accept(message), Accepted)
                    producer.note(message.id, message.payload, Told.OK)
                except StoreUnavailable:
                    producer.note(message.id, message.payload, Told.FAILED)
                    await asyncio.sleep(0.01)

        async def settled() -> bool:
            return {row.message for row in await dump(site.database) if row.state == "sent"} >= before

        clients = [asyncio.create_task(flood()) for _ in range(60)]
        await until(settled)
        told = Counter(each.told for each in producer.produced)
        assert min(told[Told.OK] - in_flight, told[Told.FAILED]) >= 10, f"it was no flood: {told}"
        over.set()
        await asyncio.gather(*clients)
        site.receivers.change("ep_1", Ok())
        await acceptor.close()
        await site.rest()
    report = await site.report(producer)
    assert report.sound, report


async def test_d9_every_connection_busy(site: Site) -> None:
    """While every connection for accepting is taken, clients are told so soon, and what is in flight is settled."""
    if not site.database.shared:
        pytest.skip("SQLite has no pool of connections")
    in_flight, answers_after = 8, 1.5
    timeout_ms = int(2 * answers_after * 1000)
    await site.endpoints({"ep_1": Slow(answers_after)}, cap=in_flight, timeout_ms=timeout_ms)
    producer = site.producer()
    patient = {"longest_timeout": 2 * answers_after, "lease": 3 * answers_after}
    async with site.station(**patient) as station, working(station.worker):
        await _widen(site, in_flight)
        await producer.send([counter(station)], in_flight)
        await until(lambda: site.receivers.counts["ep_1"].in_flight == in_flight)
        async with _keys_locked(site):
            flood = asyncio.create_task(producer.send([_own_journey(station)], 3 * POOL, at_once=3 * POOL))
            await until(lambda: _all_busy(site))
            busy = await _busy(site)
            assert await unfinished(site.database) == in_flight, "each has still to be settled"
            await site.rest()
            assert await _busy(site) >= busy, "it was settled while they were taken"
            await until(lambda: producer.unavailable >= 2 * POOL)
        await flood
        await site.rest()
    assert producer.slowest <= LONGEST_WAIT, f"a client waited {producer.slowest:.2f} s"
    report = await site.report(producer)
    assert report.sound, report


async def _widen(site: Site, cap: int) -> None:
    """As after many successes: a lane that has had none sends one at a time."""
    await site.database.rows(f"UPDATE {{schema}}lanes SET width = {cap}")


def _own_journey(station: Station) -> Ask:
    """A counter whose clients share no commit, so that each takes a connection."""

    async def ask(key: str, payload: str) -> Mapping[str, Any]:
        try:
            (answered,) = await station.store.accept([new_message(key, payload.encode())])
        except StoreUnavailable as error:
            return {"error": str(error)}
        assert isinstance(answered, Accepted)
        return {"id": answered.id}

    return ask


async def _busy(site: Site) -> set[tuple[Any, ...]]:
    """The statements of accepting that wait for the lock, each on its connection."""
    rows = await site.database.rows(
        "SELECT pid, query_start FROM pg_stat_activity WHERE datname = current_database()"
        " AND application_name = 'hookfuse accept' AND wait_event_type = 'Lock'"
    )
    return {tuple(row) for row in rows}


async def _all_busy(site: Site) -> bool:
    return len(await _busy(site)) == POOL


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
