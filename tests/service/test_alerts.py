"""What is wrong with the service itself is told: in readiness, in metrics, in the log, and to its operator."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from hookfuse.app.alarm import PATIENCE, Alarm
from hookfuse.app.health import Health
from hookfuse.app.metrics import Metrics
from hookfuse.app.station import Station, StationSettings
from hookfuse.core.addresses import Networks
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.message import NewMessage
from hookfuse.core.notice import NOBODYS, Event
from hookfuse.core.paging import Span
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.core.upkeep import Concern
from hookfuse.delivery.notify import NotifySettings
from hookfuse.delivery.notify_addresses import Addresses, NoticeDefaults
from hookfuse.testing.receivers import Receivers
from tests.servers.redis import Server

pytestmark = pytest.mark.anyio

LATE = 61_000


@pytest.fixture
def redis_alone() -> Iterator[Server]:
    server = Server("redis")
    server.start()
    yield server
    server.remove()


@pytest.fixture
async def station(tmp_path: Path, redis_alone: Server, receivers: Receivers) -> AsyncIterator[Station]:
    """Nothing of it works or leads yet."""
    settings = StationSettings(
        f"sqlite://{tmp_path}/hookfuse.db",
        tmp_path / "master.key",
        redis_alone.url,
        networks=Networks(allowed=("127.0.0.0/8",)),
        notices=NoticeDefaults(Addresses(chat_url=receivers.add("chat")), quiet_ms=0),
        notify=NotifySettings(poll=0.05),
    )
    async with Station(settings) as found:
        yield found


async def told(station: Station) -> list[tuple[Event, str]]:
    return [(each.event, each.facts["reason"]) for each in await station.store.notices_page(Span(), app_id=NOBODYS)]


async def until(health: Health, concerns: set[Concern]) -> None:
    async with asyncio.timeout(20):
        while (await health.concerns()).keys() != concerns:
            await asyncio.sleep(0.05)


async def first_sample(station: Station) -> None:
    """Wait until it is made: its end says when the next is due."""
    async with asyncio.timeout(20):
        while (station.sampler._due_at or 0.0) <= time.monotonic():
            await asyncio.sleep(0.01)


async def bring_about(concern: Concern, station: Station, server: Server) -> None:
    match concern:
        case Concern.REDIS:
            server.stop()
        case Concern.EGRESS:
            for number in range(40):
                failed = SendResult(None, Trouble.CONNECT, 0.0)
                station.egress.saw(f"ep_{number}", failed, time.monotonic())
        case Concern.SAMPLER:
            await first_sample(station)
            station.sampler._due_at = time.monotonic() - 31
        case Concern.BACKLOG:
            await station.store.add_application(Application("app_1", "Acme"))
            await station.store.add_endpoint(Endpoint("ep_1", "app_1", "https://example.com/"))
            await station.store.accept([NewMessage("msg_1", "app_1", "invoice.paid", b"{}")])
            with closing(apsw.Connection(station.settings.database.removeprefix("sqlite://"))) as db:
                db.set_busy_timeout(10_000)
                db.execute("UPDATE lanes SET fresh_ms = fresh_ms - ?", (LATE,))
        case Concern.LEADER:
            await station.store.give_up_duties(station.leader._holder)


@pytest.mark.parametrize("concern", list(Concern))
async def test_said_everywhere(
    station: Station, redis_alone: Server, concern: Concern, caplog: pytest.LogCaptureFixture
) -> None:
    """What lasts is in readiness and metrics at once, and after its patience in the log and the outbox, once."""
    health, metrics = Health(station), Metrics()
    await station.leader.beat()
    await until(health, set())
    await bring_about(concern, station, redis_alone)
    await until(health, {concern})
    assert list((await health.readiness()).alerts) == [concern]
    page = metrics.page(await health.readings()).decode()
    assert f'hookfuse_alert{{alert="{concern}"}} 1.0' in page
    assert sum(line.startswith("hookfuse_alert{") and line.endswith(" 1.0") for line in page.splitlines()) == 1
    with caplog.at_level(logging.WARNING, "hookfuse.app"):
        for process in (Alarm(station.store, health), Alarm(station.store, health)):
            for now in (0.0, PATIENCE - 1):
                await process.look(now)
                assert await told(station) in ([], [(Event.SERVICE_TROUBLE, concern)])
            await process.look(PATIENCE)
            await process.look(PATIENCE + 5)
    assert await told(station) == [(Event.SERVICE_TROUBLE, concern)], "two processes see it, and it is told once"
    assert caplog.text.count(f"alert {concern}: ") == 2, "each in its own log"
    await station.leader._heed({})


async def test_its_end_is_told(station: Station, redis_alone: Server, receivers: Receivers) -> None:
    """The operator hears of the beginning and of the end; of what passes within the patience he hears nothing."""
    health = Health(station)
    alarm = Alarm(station.store, health)
    async with station.leader:
        await until(health, set())
        await alarm.look(0.0)
        redis_alone.stop()
        await until(health, {Concern.REDIS})
        await alarm.look(1.0)
        redis_alone.start()
        await until(health, set())
        await alarm.look(2.0)
        redis_alone.stop()
        await until(health, {Concern.REDIS})
        await alarm.look(3.0)
        await alarm.look(3.0 + PATIENCE)
        redis_alone.start()
        await until(health, set())
        await alarm.look(4.0 + PATIENCE)
        await receivers["chat"].arrived(2)
    assert await told(station) == [(Event.SERVICE_TROUBLE, "redis"), (Event.SERVICE_RECOVERED, "redis")]
