"""A process tells the fleet that it is there; that it cannot be told keeps it from nothing else."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.app import heartbeat
from hookfuse.app.health import Health
from hookfuse.app.heartbeat import Heartbeat
from hookfuse.app.metrics import Metrics
from hookfuse.app.station import Station, StationSettings
from hookfuse.core.addresses import Networks
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.member import Member, Part, Presence, Sharing
from hookfuse.core.message import NewMessage
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.testing.receivers import Receivers

pytestmark = pytest.mark.anyio

BOTH = (Part.API, Part.WORKER)


@pytest.fixture
async def station(tmp_path: Path) -> AsyncIterator[Station]:
    async with Station(StationSettings(f"sqlite://{tmp_path}/hookfuse.db", tmp_path / "master.key")) as found:
        yield found


async def listed(station: Station, presence: Presence) -> Member:
    async with asyncio.timeout(10):
        while True:
            for each in await station.store.members():
                if each.presence is presence:
                    return each
            await asyncio.sleep(0.01)


async def test_what_is_told(station: Station) -> None:
    """A process says where it runs, what it does and how; asked to end it says so at once; then it is gone."""
    async with Heartbeat(station, Health(station), BOTH) as beating:
        said = (await listed(station, Presence.RUNNING)).report
        assert (said.name, said.host) == (station.name, socket.gethostname())
        assert (said.parts, said.in_hand, said.slots) == (BOTH, 0, station.worker.settings.slots)
        assert (said.breakers, said.suspect) == (Sharing.OWN, False)
        for number in range(40):
            station.egress.saw(f"ep_{number}", SendResult(None, Trouble.CONNECT, 0.0), time.monotonic())
        asked = time.monotonic()
        beating.drain()
        assert (await listed(station, Presence.DRAINING)).report.suspect
        assert time.monotonic() - asked < heartbeat.EVERY / 2
    assert await station.store.members() == []


async def test_one_that_does_not_deliver(station: Station) -> None:
    """A process without a worker has no slots, and nothing in flight."""
    async with Heartbeat(station, Health(station), (Part.API,)):
        said = (await listed(station, Presence.RUNNING)).report
    assert (said.parts, said.in_hand, said.slots) == ((Part.API,), 0, 0)


async def test_without_redis(tmp_path: Path) -> None:
    """A process whose Redis is away says that its breakers are degraded."""
    settings = StationSettings(f"sqlite://{tmp_path}/hookfuse.db", tmp_path / "master.key", "redis://127.0.0.1:1")
    async with Station(settings) as station:
        health = Health(station)
        await health.concerns()
        async with Heartbeat(station, health, BOTH):
            assert (await listed(station, Presence.RUNNING)).report.breakers is Sharing.DEGRADED


async def test_counted(station: Station) -> None:
    """Metrics count the processes that are heard of."""
    health, metrics = Health(station), Metrics()
    async with Heartbeat(station, health, BOTH):
        await listed(station, Presence.RUNNING)
        page = metrics.page(await health.readings()).decode()
    assert 'hookfuse_processes{state="running"} 1.0' in page
    assert 'hookfuse_processes{state="silent"} 0.0' in page


async def test_a_list_that_cannot_be_written(
    tmp_path: Path, postgres_url: str, receivers: Receivers, caplog: pytest.LogCaptureFixture
) -> None:
    """While someone holds the table, deliveries flow, it is said once that reports fail, and once that they do not."""
    networks = Networks(allowed=("127.0.0.0/8",))
    settings = StationSettings(postgres_url, tmp_path / "master.key", networks=networks)
    async with Station(settings) as station:
        health = Health(station)
        beating = Heartbeat(station, health, BOTH)
        await beating.beat()
        await station.store.add_application(Application("app_1", "Acme"))
        await station.store.add_endpoint(Endpoint("ep_1", "app_1", receivers.add("ep_1")))
        working = asyncio.create_task(station.worker.run())
        with caplog.at_level(logging.INFO, "hookfuse.app"):
            async with locked(postgres_url):
                failing = asyncio.create_task(_twice(beating))
                await station.acceptor.accept(NewMessage("msg_1", "app_1", "invoice.paid", b"{}"))
                await receivers["ep_1"].arrived(1)
                assert not failing.done(), "it arrived while a report waited"
                assert (await health.readings()).processes is None, "that nobody can say is not that nobody is there"
                await failing
            await _twice(beating)
        assert (await listed(station, Presence.RUNNING)).report.name == station.name
        assert caplog.text.count("the list of processes may miss this one") == 1
        assert caplog.text.count("on the list of processes again") == 1
        station.worker.stop()
        await working


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    """Somebody holds the table of the processes."""
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute("LOCK TABLE hookfuse.members IN ACCESS EXCLUSIVE MODE")
            yield
    finally:
        await connection.close()


async def _twice(beating: Heartbeat) -> None:
    for _ in range(2):
        await beating.beat()


async def test_nothing_is_written(station: Station) -> None:
    """On SQLite a report changes nothing on the disk."""
    file = station.settings.database.removeprefix("sqlite://")
    with apsw.Connection(file, flags=apsw.SQLITE_OPEN_READONLY) as db:
        before = db.execute("PRAGMA data_version").get
        beating = Heartbeat(station, Health(station), BOTH)
        for _ in range(3):
            await beating.beat()
        assert db.execute("PRAGMA data_version").get == before
