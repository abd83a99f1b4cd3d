"""A leader that dies or is paused in mid-sample, as a process of its own: nothing is done twice or left out."""

from __future__ import annotations

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis

from hookfuse.app.station import Station
from hookfuse.core.duty import Duty
from hookfuse.core.state import State
from tests.sampling.leader import LEASE, leader_of, settings

pytestmark = pytest.mark.anyio

ENDPOINTS = 128

FILL = f"""
INSERT INTO hookfuse.applications (id, name, created_ms, updated_ms) VALUES ('app_1', 'x', 0, 0);
INSERT INTO hookfuse.endpoints (id, app_id, url, cap, timeout_ms, created_ms, updated_ms)
SELECT 'ep_' || e, 'app_1', 'https://example.com', 32, 1000, 0, 0 FROM generate_series(1, {ENDPOINTS}) AS e;
INSERT INTO hookfuse.tallies
SELECT (SELECT hookfuse.now_ms()) / 10000 * 10000, id, 0, 20, 0, 20 FROM hookfuse.endpoints;
"""


class Scene:
    def __init__(self, station: Station, connection: asyncpg.Connection, client: redis.Redis, place: list[str]) -> None:
        self.station = station
        self.connection = connection
        self.client = client
        self._place = place

    @asynccontextmanager
    async def victim(self, point: str) -> AsyncIterator[Process]:
        """The other leader; it ends with the test, however that ends."""
        words = (sys.executable, "-m", "tests.sampling.leader", *self._place, point)
        process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            await process.wait()

    async def open(self) -> int:
        return sum([seen.state is State.OPEN async for seen in self.station.breakers.unhealthy()])

    def transitions(self) -> int:
        """How many all shards have ever announced."""
        return sum(int(self.client.xlen(name)) for name in self.client.scan_iter("*:stream"))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def scene(postgres_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[Scene]:
    place = [postgres_url, redis_url, str(tmp_path / "master.key")]
    async with Station(settings(*place)) as station:
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(FILL)
        client = redis.Redis.from_url(redis_url)
        yield Scene(station, connection, client, place)
        client.close()
        await connection.close()


async def test_killed_in_mid_evaluation(scene: Scene) -> None:
    """What a killed leader had not yet judged, the next one does; what it had, is not done again."""
    async with scene.victim("killed") as victim:
        assert await asyncio.wait_for(victim.wait(), 30) == -signal.SIGKILL
    before = scene.transitions()
    assert 0 < before < ENDPOINTS
    assert await scene.open() == before
    async with leader_of(scene.station, "next"), asyncio.timeout(30):
        while await scene.open() < ENDPOINTS:
            await asyncio.sleep(0.05)
    assert scene.transitions() == ENDPOINTS


async def test_f7_paused_beyond_its_lease(scene: Scene) -> None:
    """A leader that was paused with a counted sample in hand, and replaced, changes nothing when it goes on."""
    async with scene.victim("stopped") as victim:
        assert victim.stdout is not None
        assert await asyncio.wait_for(victim.stdout.readline(), 30) == b"counted %d\n" % ENDPOINTS
        # What it has counted is no longer so: whoever leads next finds every endpoint healthy.
        await scene.connection.execute("UPDATE hookfuse.tallies SET ok = 100, failed = 0")
        async with leader_of(scene.station, "next") as leader, asyncio.timeout(30):
            while Duty.SAMPLING not in leader.tenures or not list(scene.client.scan_iter("*:fence")):
                await asyncio.sleep(0.05)
            fence = leader.tenures[Duty.SAMPLING].fence
            while {int(scene.client.get(name) or 0) for name in scene.client.scan_iter("*:fence")} != {fence}:
                await asyncio.sleep(0.05)
            victim.send_signal(signal.SIGCONT)
            assert await victim.stdout.readline() == b"judged 0 replaced True\n"
            await asyncio.sleep(2 * LEASE)
            (held,) = await scene.station.store.duties()
            assert (held.holder, held.fence) == ("next", fence)
    assert await scene.open() == 0
    assert scene.transitions() == 0
