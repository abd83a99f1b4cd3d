"""Postgres restarts, is cut off in the midst of a commit, or has another clock than its workers."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.stores.postgres.queries import SQL
from hookfuse.testing.receivers import Failing, Ok, Script
from tests.faults.delivery.databases import PostgresDatabase, leases
from tests.faults.delivery.producer import Producer
from tests.faults.delivery.site import Site, counter, until
from tests.faults.delivery.sizes import Sizes, seed
from tests.faults.delivery.station import new_message
from tests.servers.packages import install, missing
from tests.servers.postgres import Server, serving
from tests.servers.proxy import Proxy
from tests.unit.stores.postgres_scene import opened, until_someone_waits

pytestmark = pytest.mark.anyio

BACK_WITHIN = 5.0
LONG_LEASE = 300.0


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    parts = urlsplit(server.url)
    assert parts.hostname is not None
    assert parts.port is not None
    with Proxy((parts.hostname, parts.port)) as made:
        yield made


@pytest.fixture
async def far(tmp_path: Path, server: Server, proxy: Proxy, sizes: Sizes) -> AsyncIterator[Site]:
    """A site whose stations reach Postgres by way of the proxy."""
    by_way_of = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
    made = Site(tmp_path, PostgresDatabase(server.url, by_way_of=by_way_of), sizes, seed())
    print(f"HOOKFUSE_SEED={made.seed}")  # noqa: T201
    with made.receivers:
        yield made
        await made.close()
        print(made.said())  # noqa: T201


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_d1_restarted_under_load(far: Site, server: Server, mode: Literal["fast", "immediate"]) -> None:
    """While Postgres restarts, clients are told to come again and never a false yes; soon after, all goes on."""
    await far.alike(Ok(delay=0.01), cap=far.sizes.slots)
    apis, _ = await far.fleet()
    producer = far.producer()
    producing = asyncio.create_task(producer.send([each.ask for each in apis], 3 * far.sizes.messages))
    await until(lambda: len(producer.produced) > far.sizes.messages // 4)
    await asyncio.to_thread(server.stop, mode)
    at_stop = len(producer.produced)
    await until(lambda: producer.unavailable > 0)
    await asyncio.to_thread(server.start)
    assert await until(lambda: len(producer.produced) > at_stop + 16) < BACK_WITHIN
    assert all(each.running for each in apis)
    await producing
    await far.rest()
    report = await far.report(producer, duplicates=far.sizes.workers * far.sizes.slots)
    assert report.sound, report


async def test_d1_cut_in_the_commit(far: Site, proxy: Proxy) -> None:
    """When the answer to a commit is lost, nobody is told yes or no; the key finds out, and nothing is doubled."""
    await far.alike(Ok(delay=0.01), cap=far.sizes.slots)
    apis, _ = await far.fleet()
    producer = far.producer()
    producing = asyncio.create_task(producer.send([each.ask for each in apis], 3 * far.sizes.messages))
    for turn in range(1, 3):
        await until(lambda turn=turn: len(producer.produced) > turn * far.sizes.messages // 2)  # type: ignore[misc]
        proxy.mute()
        await asyncio.sleep(0.1)  # what was asked is being done
        proxy.reset()
        proxy.heal()
    await producing
    assert producer.unavailable > 0
    await far.rest()
    report = await far.report(producer, duplicates=2 * far.sizes.workers * far.sizes.slots)
    assert report.sound, report


async def hand_in(server: Server, producer: Producer, name: str) -> None:
    """A message that does not take the way by the proxy."""
    message = new_message(f"key-{name}", f'"{name}"'.encode())
    async with opened(server.url) as store:
        await store.accept([message])
    producer.note(message.id, message.payload)


@asynccontextmanager
async def claim_under_way(server: Server, producer: Producer, name: str) -> AsyncIterator[None]:
    """A message whose claim has begun, and is made once the lane is let go that it waits for."""
    other = await asyncpg.connect(server.url)
    try:
        async with other.transaction():
            await other.fetch("SELECT 1 FROM hookfuse.lanes ORDER BY endpoint_id LIMIT 1 FOR UPDATE")
            await hand_in(server, producer, name)
            await until_someone_waits(other)
            yield
    finally:
        await other.close()


async def check_that_nobody_noticed(site: Site, producer: Producer) -> None:
    (deaths,) = await site.database.rows("SELECT sum(deaths) FROM {schema}deliveries")
    assert deaths[0] == 0
    report = await site.report(producer)
    assert report.sound, report


async def test_d1_the_answer_to_a_claim_is_lost(far: Site, server: Server, proxy: Proxy) -> None:
    """What was claimed when the connection broke is sent once, seconds later and not at its lease's end: no death."""
    await far.alike()
    await far.process(accepts=False, lease=LONG_LEASE).start()
    producer = far.producer()
    for turn in range(3):
        async with claim_under_way(server, producer, f"{turn}"):
            proxy.mute()
        # Let go, the claim is committed at once.
        await until(lambda: _has_leases(far))
        proxy.reset()
        proxy.heal()
        await until(far._at_rest, BACK_WITHIN)
    await check_that_nobody_noticed(far, producer)


async def test_d1_a_claim_is_made_after_its_connection_was_cut(far: Site, server: Server, proxy: Proxy) -> None:
    """A claim that the server makes while its worker is back and has looked for it in vain is found all the same."""
    await far.alike()
    await far.process(accepts=False, lease=LONG_LEASE).start()
    producer = far.producer()
    async with claim_under_way(server, producer, "late"):
        proxy.reset()
        proxy.heal()
        await until(lambda: _has_looked(far), BACK_WITHIN)
        assert not await leases(far.database)
    await until(far._at_rest, BACK_WITHIN)
    assert "the answer to a claim was lost" in far.said()
    await check_that_nobody_noticed(far, producer)


async def test_a_cancelled_worker_waits_for_its_claim(far: Site, server: Server) -> None:
    """A worker that is cancelled while Postgres works on its claim gives back what it brings; no lease is left."""
    await far.alike()
    producer = far.producer()
    async with far.station(lease=LONG_LEASE, margin=BACK_WITHIN) as station:
        running = asyncio.create_task(station.worker.run())
        async with claim_under_way(server, producer, "cancelled"):
            running.cancel()
            done, _ = await asyncio.wait([running], timeout=0.1)
            assert not done
        with pytest.raises(asyncio.CancelledError):
            await running
        assert not await leases(far.database)
    assert far.receipts() == []
    await far.process(accepts=False).start()
    await far.rest()
    await check_that_nobody_noticed(far, producer)


async def _has_looked(site: Site) -> bool:
    """Whether the last that some connection was asked is what a lost claim had taken."""
    asked = "SELECT query FROM pg_stat_activity WHERE state = 'idle' AND application_name = 'hookfuse deliver'"
    return any(query == SQL["leases_of_tokens"] for (query,) in await site.database.rows(asked))


async def _has_leases(site: Site) -> bool:
    return bool(await leases(site.database))


def another_clock(offset: str) -> dict[str, str]:
    """What makes a process see another time; `faketime` itself would be a process between."""
    if not _fake_clocks():
        install("libfaketime")
    found = _fake_clocks() or missing("no libfaketime was found, and none could be installed")
    return {"LD_PRELOAD": str(found[0]), "FAKETIME": offset, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def _fake_clocks() -> list[Path]:
    return sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


@pytest.mark.parametrize("offset", ["-10m", "+10m"])
async def test_d14_workers_with_another_clock(far: Site, offset: str) -> None:
    """A worker whose clock is ten minutes off sends nothing early or late, and signs with the right time."""
    await far.endpoints({"ep_1": Ok()})
    worker = far.process(accepts=False, environment=another_clock(offset))
    await worker.start()
    assert abs(worker.events()[0]["at"] - time.time()) > 500, "its clock is off"
    producer = far.producer()
    async with far.station() as station:
        now = time.time()
        for number in range(6):
            due = int((now + 0.3 * number) * 1000)
            message = new_message(f"key-{number}", f"{number}".encode())
            await station.store.accept([message._replace(deliver_ms=due)])
            producer.note(message.id, message.payload)
    await far.rest()
    receipts = far.receipts()
    assert [receipt.verified for receipt in receipts] == [True] * 6
    for number, receipt in enumerate(sorted(receipts, key=lambda receipt: receipt.arrived_at)):
        assert -0.002 <= receipt.arrived_at - (now + 0.3 * number) < BACK_WITHIN
    report = await far.report(producer)
    assert report.sound, report


@pytest.mark.parametrize("offset", ["-10m", "+10m"])
async def test_d14_a_retry_with_another_clock(far: Site, offset: str) -> None:
    """A worker whose clock is ten minutes off sends what failed again when it is due, neither early nor late."""
    delay = 0.7
    await far.alike(Script((Failing(), Ok())), retry={"delays": [delay], "jitter": 0})
    worker = far.process(accepts=False, environment=another_clock(offset))
    await worker.start()
    assert abs(worker.events()[0]["at"] - time.time()) > 500, "its clock is off"
    producer = far.producer()
    async with far.station() as station:
        await producer.send([counter(station)], 1)
    await far.rest()
    arrived = defaultdict[str, list[float]](list)
    for receipt in far.receipts():
        arrived[receipt.endpoint].append(receipt.arrived_at)
    for first, second in arrived.values():
        assert -0.002 <= second - (first + delay) < BACK_WITHIN
    report = await far.report(producer)
    assert report.sound, report
