"""What breakers do is written down by whoever hears of it, once; and found later where nobody did."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hookfuse import AsyncBreakers, Outcome, Policy, State, Streak
from hookfuse.core.paging import Span
from hookfuse.core.state import Transition
from hookfuse.delivery.chronicle import Chronicle
from hookfuse.delivery.reconcile import Reconciler
from hookfuse.errors import StoreUnavailable
from hookfuse.stores.redis import RedisStore
from hookfuse.stores.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

KEY = "app_1/ep_1"
POLICY = Policy(trip=Streak(1), cool_off=60)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    found = SqliteStore(tmp_path / "hookfuse.db")
    await found.open()
    yield found
    await found.close()


def fleet(url: str) -> AsyncBreakers:
    """The breakers of one more process."""
    return AsyncBreakers(RedisStore(url), policy=POLICY)


async def fail(breakers: AsyncBreakers, key: str = KEY) -> Transition:
    made = await breakers.record(await breakers.admit(key), Outcome.FAILURE)
    assert made is not None
    return made


async def kept(store: SqliteStore, count: int) -> list[Transition]:
    """Wait until so many transitions are kept; returns them, oldest first."""
    async with asyncio.timeout(10):
        while len(found := await store.transitions_page(Span(), key=KEY)) < count:
            await asyncio.sleep(0.005)
    return [entry.transition for entry in found]


async def test_every_process_writes_and_one_counts(store: SqliteStore, redis_url: str) -> None:
    """A transition that three processes hear of is kept once, equal to what was made, and told by one of them."""
    told: list[Transition] = []
    processes = [fleet(redis_url) for _ in range(3)]
    chronicles = [Chronicle(store, each, told.append) for each in processes]
    async with AsyncExitStack() as stack:
        for process, chronicle in zip(processes, chronicles, strict=True):
            await stack.enter_async_context(process)
            await stack.enter_async_context(chronicle)
        made = await fail(processes[0])
        for process in processes:
            await process.catch_up()
    assert await kept(store, 1) == [made]
    assert told == [made]


class Away:
    """A store that is away until it is told otherwise."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store
        self.away = True
        self.asked = asyncio.Event()

    async def keep_transitions(self, transitions: Sequence[Transition]) -> Sequence[Transition]:
        self.asked.set()
        if self.away:
            raise StoreUnavailable("The database is away.")
        return await self._store.keep_transitions(transitions)


async def test_a_database_that_is_away(store: SqliteStore) -> None:
    """What is heard while the database is away is written when it is back, and at the latest at the end."""
    breakers, away = AsyncBreakers(policy=POLICY), Away(store)
    async with Chronicle(away, breakers):  # type: ignore[arg-type]
        made = await fail(breakers)
        await away.asked.wait()
        away.away = False
    assert await kept(store, 1) == [made]


async def test_what_nobody_wrote_down(store: SqliteStore, redis_url: str) -> None:
    """A trip that nobody wrote is kept at the second look, with its reason, numbers and generation."""
    async with fleet(redis_url) as lost:
        made = await fail(lost)
    told: list[Transition] = []
    async with fleet(redis_url) as alive:
        reconciler = Reconciler(store, alive, told.append)
        assert await reconciler.look() == 0, "whoever made it may be about to write it"
        assert await reconciler.look() == 1
        assert await reconciler.look() == 0
    (found,) = await kept(store, 1)
    assert (found.before, found.after, found.generation) == (State.CLOSED, State.OPEN, made.generation)
    assert (found.reason, found.why, found.at) == (made.reason, made.why, made.at)
    assert told == [found]


async def test_a_recovery_that_nobody_wrote_down(store: SqliteStore, redis_url: str) -> None:
    """A breaker that closed unheard is found by what was kept of it before."""
    async with fleet(redis_url) as lost:
        await store.keep_transitions([await fail(lost)])
        closed = await lost.reset(KEY, reason="mended")
        assert closed is not None
    async with fleet(redis_url) as alive:
        reconciler = Reconciler(store, alive)
        assert [await reconciler.look() for _ in range(3)] == [0, 1, 0]
    found = (await kept(store, 2))[-1]
    assert (found.before, found.after, found.generation) == (State.OPEN, State.CLOSED, closed.generation)


async def test_what_was_written_is_left_alone(store: SqliteStore, redis_url: str) -> None:
    """A breaker whose last transition is kept is looked at and nothing else, however often."""
    async with fleet(redis_url) as alive:
        await store.keep_transitions([await fail(alive)])
        reconciler = Reconciler(store, alive)
        assert [await reconciler.look() for _ in range(3)] == [0, 0, 0]
    assert len(await kept(store, 1)) == 1
