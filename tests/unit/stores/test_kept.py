"""Breakers of one process, taken up by the next one on the same file."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hookfuse import AsyncBreakers, Outcome, Policy, State, Streak
from hookfuse.core.state import Override, Transition
from hookfuse.errors import StoreUnavailable
from hookfuse.stores.kept import Kept, KeptBreakers, Row
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing import ManualClock

POLICY = Policy(trip=Streak(3), cool_off=30, window=600)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


pytestmark = pytest.mark.anyio


@asynccontextmanager
async def process(file: Path, clock: ManualClock, *, killed: bool = False) -> AsyncIterator[AsyncBreakers]:
    """Breakers of a process; a killed one does not get to write anything at its end."""
    store = SqliteStore(file, clock=clock)
    await store.open()
    kept = KeptBreakers(store, clock=clock)
    await kept.load()
    breakers = AsyncBreakers(kept, policy=POLICY)
    try:
        yield breakers
    finally:
        if killed:
            assert kept._follower is not None
            kept._follower.cancel()
            await asyncio.gather(kept._follower, return_exceptions=True)
        else:
            await breakers.close()
        await store.close()


async def fail(breakers: AsyncBreakers, key: str, times: int) -> None:
    for _ in range(times):
        await breakers.record(await breakers.admit(key), Outcome.FAILURE, latency=0.2, error="status 500")


async def test_open_survives_a_kill(tmp_path: Path) -> None:
    """A trip is on the disk when `record` returns: the next process refuses until the same probe_at."""
    clock = ManualClock()
    async with process(tmp_path / "db", clock, killed=True) as breakers:
        await fail(breakers, "ep", 3)
        before = await breakers.inspect("ep")
    async with process(tmp_path / "db", clock) as breakers:
        after = await breakers.inspect("ep")
        assert after == before
        assert after.state is State.OPEN
        refused = await breakers.admit("ep")
        assert not refused.allowed
        assert refused.retry_at == before.probe_at
        clock.advance(30)
        assert (await breakers.admit("ep")).probe


async def test_orders_survive_a_kill(tmp_path: Path) -> None:
    """Overrides with their reason and end, and disabled states, are taken up by the next process."""
    clock = ManualClock()
    async with process(tmp_path / "db", clock, killed=True) as breakers:
        await breakers.force_open("forced", reason="maintenance", until=clock.now() + 3600)
        await breakers.disable("off", reason="customer left")
        before = [await breakers.inspect(key) for key in ("forced", "off")]
    clock.advance(60)
    async with process(tmp_path / "db", clock) as breakers:
        assert [await breakers.inspect(key) for key in ("forced", "off")] == before
        assert before[0].override is Override.OPEN
        assert before[1].state is State.DISABLED
        assert {each.key async for each in breakers.unhealthy()} == {"forced", "off"}


async def test_counts_survive_an_end(tmp_path: Path) -> None:
    """Streak, window and totals go on where an orderly end left them."""
    clock = ManualClock()
    async with process(tmp_path / "db", clock) as breakers:
        await breakers.record(await breakers.admit("ep"), Outcome.OK, latency=0.1)
        await fail(breakers, "ep", 2)
        before = await breakers.inspect("ep")
    async with process(tmp_path / "db", clock) as breakers:
        assert await breakers.inspect("ep") == before
        await fail(breakers, "ep", 1)
        assert (await breakers.inspect("ep")).state is State.OPEN


async def test_counts_follow_by_themselves(tmp_path: Path) -> None:
    """Counts reach the disk within a second, without a transition and without an orderly end."""
    clock = ManualClock()
    async with process(tmp_path / "db", clock, killed=True) as breakers:
        await fail(breakers, "ep", 2)
        store = breakers._session._kept._table  # type: ignore[attr-defined]
        async with asyncio.timeout(1.5):
            while not (await store.kept_breakers()).rows:
                await asyncio.sleep(0.01)
    async with process(tmp_path / "db", clock) as breakers:
        assert (await breakers.inspect("ep")).streak == 2


async def test_generations_only_grow(tmp_path: Path) -> None:
    """The next process gives out greater generations, though the clock went back and the breaker was forgotten."""
    clock = ManualClock()
    async with process(tmp_path / "db", clock) as breakers:
        await fail(breakers, "ep", 3)
        await breakers.reset("ep")
        before = (await breakers.inspect("ep")).generation
    clock.advance(-3600)
    async with process(tmp_path / "db", clock) as breakers:
        await fail(breakers, "other", 3)
        assert (await breakers.inspect("other")).generation > before


async def test_a_lost_probe_is_free(tmp_path: Path) -> None:
    """The lease of a probe ends with its process: the next one may probe at once."""
    clock = ManualClock()
    async with process(tmp_path / "db", clock) as breakers:
        await fail(breakers, "ep", 3)
        clock.advance(30)
        assert (await breakers.admit("ep")).probe
        assert not (await breakers.admit("ep")).allowed
    async with process(tmp_path / "db", clock) as breakers:
        assert (await breakers.inspect("ep")).state is State.HALF_OPEN
        assert (await breakers.admit("ep")).probe


async def test_quiet_keys_are_forgotten(tmp_path: Path) -> None:
    """What a running process would have forgotten is not taken up."""
    clock = ManualClock()
    async with process(tmp_path / "db", clock) as breakers:
        await breakers.record(await breakers.admit("ep"), Outcome.OK, latency=0.1)
    clock.advance(86_400)
    async with process(tmp_path / "db", clock) as breakers:
        assert (await breakers.inspect("ep")).totals.ok == 0


class FullDisk:
    """A table that refuses until it is told otherwise."""

    def __init__(self) -> None:
        self.full = True
        self.rows: dict[str, Row] = {}
        self.made: list[Transition] = []

    async def kept_breakers(self) -> Kept:
        return Kept(0, ())

    async def keep_breakers(self, rows: list[Row], last: int, made: list[Transition]) -> None:
        if self.full:
            raise StoreUnavailable("The disk that holds the database is full; nothing was stored.")
        self.rows.update({row.key: row for row in rows})
        self.made += made

    async def forget_breakers(self) -> None: ...


async def test_full_disk() -> None:
    """A trip that cannot be written counts all the same and is written later; an order that cannot is told so."""
    table = FullDisk()
    kept = KeptBreakers(table)  # type: ignore[arg-type]
    await kept.load()
    breakers = AsyncBreakers(kept, policy=POLICY)
    await fail(breakers, "ep", 3)
    assert not (await breakers.admit("ep")).allowed
    with pytest.raises(StoreUnavailable, match="full"):
        await breakers.force_open("other")
    table.full = False
    await breakers.close()
    assert table.rows.keys() == {"ep", "other"}
    assert {each.key for each in table.made} == {"ep", "other"}
