"""The leader: it does what it holds, ends what it lost, and leaves what it held to others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hookfuse.core.duty import Duty, Tenure
from hookfuse.delivery.leader import Leader
from hookfuse.errors import StoreUnavailable
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing import ManualClock

pytestmark = pytest.mark.anyio


class Doing:
    """A duty's work: notes under which fence it began and ended."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []

    async def __call__(self, tenure: Tenure) -> None:
        self.begun.append(tenure.fence)
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.append(tenure.fence)


class Shaky:
    """A store of duties that can be cut off."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.away = False

    async def hold_duties(self, duties: Sequence[Duty], holder: str, lease_ms: int) -> Sequence[Tenure]:
        if self.away:
            raise StoreUnavailable("away")
        return await self._store.hold_duties(duties, holder, lease_ms)

    async def give_up_duties(self, holder: str) -> None:
        if self.away:
            raise StoreUnavailable("away")
        await self._store.give_up_duties(holder)

    async def duties(self) -> Sequence[Tenure]:
        return await self._store.duties()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    found = SqliteStore(tmp_path / "hookfuse.db", clock=ManualClock())
    await found.open()
    yield found
    await found.close()


def turn(store: SqliteStore, seconds: float) -> None:
    clock = store._clock
    assert isinstance(clock, ManualClock)
    clock.advance(seconds)


async def test_what_is_held_is_done_once(store: SqliteStore) -> None:
    """Of two leaders one does the duty; the other takes over when the lease has ended, and the first one stops."""
    works = Doing(), Doing()
    first, second = (Leader(store, {Duty.SAMPLING: work}, holder=f"p{n}") for n, work in enumerate(works))
    for _ in range(3):
        await first.beat()
        await second.beat()
        await asyncio.sleep(0)
    assert (works[0].begun, works[1].begun) == ([1], [])
    turn(store, 6)
    await second.beat()
    await first.beat()
    await asyncio.sleep(0)
    assert (works[0].ended, works[1].begun) == ([1], [2])
    assert list(second.tenures) == [Duty.SAMPLING]
    assert not first.tenures
    await first.__aexit__()
    await second.__aexit__()


async def test_left_behind_for_others(store: SqliteStore) -> None:
    """A leader that ends stops its work first, and then its duties are free at once."""
    work = Doing()
    async with Leader(store, {Duty.SAMPLING: work}, holder="a") as leader:
        async with asyncio.timeout(5):
            while not work.begun:
                await asyncio.sleep(0.001)
        assert leader.tenures[Duty.SAMPLING].holder == "a"
    assert work.ended == [1]
    assert await store.duties() == []


async def test_without_a_database_a_duty_ends_with_its_lease(store: SqliteStore) -> None:
    """A leader that cannot renew goes on until its lease has ended by its own count, and then stops."""
    work, shaky = Doing(), Shaky(store)
    leader = Leader(shaky, {Duty.SAMPLING: work}, holder="a", lease=0.2)
    await leader.beat()
    await asyncio.sleep(0)
    shaky.away = True
    await leader.beat()
    assert work.ended == []
    async with asyncio.timeout(5):
        while not work.ended:
            await leader.beat()
            await asyncio.sleep(0.01)
    assert not leader.tenures
    await leader.__aexit__()


async def test_work_that_fails_begins_anew(store: SqliteStore, caplog: pytest.LogCaptureFixture) -> None:
    """A duty that raised is told in the log and begun again with the next beat, under the same fence."""
    begun: list[int] = []

    async def work(tenure: Tenure) -> None:
        begun.append(tenure.fence)
        raise ValueError("no")

    leader = Leader(store, {Duty.RESCUE: work}, holder="a")
    for _ in range(2):
        await leader.beat()
        await asyncio.sleep(0.01)
    assert begun == [1, 1]
    assert "rescue went wrong here" in caplog.text
    await leader.__aexit__()
