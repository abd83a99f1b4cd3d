"""Postgres restarts, is cut off in the midst of a commit, or has another clock than its workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest

from hookfuse.testing.receivers import Ok
from tests.faults.delivery.databases import PostgresDatabase
from tests.faults.delivery.site import Site, until
from tests.faults.delivery.sizes import Sizes, seed
from tests.faults.delivery.station import new_message
from tests.servers.packages import install, missing
from tests.servers.postgres import Server, serving
from tests.servers.proxy import Proxy

pytestmark = pytest.mark.anyio

BACK_WITHIN = 5.0


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
