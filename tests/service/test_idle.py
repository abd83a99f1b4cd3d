"""What a station costs that has nothing to do: it leads, its worker looks for work, and there is none."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.app.station import Station, StationSettings
from hookfuse.delivery.notify import NotifySettings
from hookfuse.delivery.worker import WorkerSettings
from hookfuse.ports import DeliveryStore
from tests.faults.delivery.site import until, working

pytestmark = pytest.mark.anyio

DONE = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
MOST_A_SECOND = 8.0
"""Transactions; it makes somewhat more than five: three for notices, one for deliveries, the rest for its duties."""
RENEWED_AFTER = 16.0
"""Seconds between two renewals of its duties where a station is alone with a file, at least."""
LOOKS = ("claim", "rescue", "claim_notices")


def _counted(store: DeliveryStore, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the store was asked for something to do, by verb."""
    asked: Counter[str] = Counter()

    def counting(name: str, verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def ask(*args: Any, **more: Any) -> Any:
            answer = await verb(*args, **more)
            asked[name] += 1
            return answer

        return ask

    for name in LOOKS:
        monkeypatch.setattr(store, name, counting(name, getattr(store, name)))
    return asked


async def test_an_idle_station_leaves_postgres_alone(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A station with nothing to do makes a handful of transactions a second, with the settings that everyone has."""
    station = Station(StationSettings(postgres_url, tmp_path / "master.key"))
    asked = _counted(station.store, monkeypatch)
    db = await asyncpg.connect(postgres_url)
    rates = []
    async with station, station.leader, working(station.worker):
        # The server tells of what was done a moment later, so the first part has the start in it; the least is idle.
        for _ in range(3):
            before, began, looks = await db.fetchval(DONE), time.monotonic(), asked["claim"]
            await until(lambda looks=looks: asked["claim"] >= looks + 4, 60)  # type: ignore[misc]
            rates.append((await db.fetchval(DONE) - before) / (time.monotonic() - began))
    await db.close()
    print(f"transactions a second: {', '.join(f'{rate:.1f}' for rate in rates)}")  # noqa: T201
    assert 0 < min(rates) <= MOST_A_SECOND


async def test_an_idle_station_writes_nothing_to_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a station looks for work, nothing is written to its file but that it still holds its duties."""
    settings = StationSettings(
        f"sqlite://{tmp_path}/hookfuse.db",
        tmp_path / "master.key",
        worker=WorkerSettings(poll=0.01, rescue_every=0.01),
        notify=NotifySettings(poll=0.01, look_every=0.01),
    )
    station = Station(settings)
    asked = _counted(station.store, monkeypatch)
    async with station, station.leader, working(station.worker):
        await until(lambda: min(asked[name] for name in LOOKS) >= 3)
        with closing(apsw.Connection(f"{tmp_path}/hookfuse.db", flags=apsw.SQLITE_OPEN_READONLY)) as db:
            versions, began, seen = {db.pragma("data_version")}, time.monotonic(), Counter(asked)

            def looked_often() -> bool:
                # It says that something was written since the last time, not how often.
                versions.add(db.pragma("data_version"))
                return min(asked[name] - seen[name] for name in LOOKS) >= 100

            await until(looked_often, 60)
            seconds = time.monotonic() - began
    assert len(versions) - 1 <= 1 + seconds // RENEWED_AFTER
