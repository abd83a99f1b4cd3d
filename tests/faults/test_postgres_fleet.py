"""Many processes and tasks on one Postgres: nothing twice, nothing lost, nobody asleep over work."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from multiprocessing.synchronize import Barrier
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.core.delivery import Chosen, Claim, DeliveryState, Place, Settlement
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.message import Accepted, Answer, NewMessage
from hookfuse.stores.postgres import PostgresStore

fork = multiprocessing.get_context("fork")

OPEN = Chosen("app_1", states=(DeliveryState.PENDING, DeliveryState.SENDING))
LONG = 60.0


def run_processes(count: int, work: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> list[Any]:
    """Run `work(number, barrier, *args)` in many processes at once, and collect what they return."""
    barrier = fork.Barrier(count)
    results = fork.SimpleQueue()

    def run(number: int) -> None:
        try:
            results.put(asyncio.run(work(number, barrier, *args)))
        except BaseException as error:
            barrier.abort()
            results.put(error)

    processes = [fork.Process(target=run, args=(number,)) for number in range(count)]
    for process in processes:
        process.start()
    collected = [results.get() for _ in processes]
    for process in processes:
        process.join()
    for each in collected:
        if isinstance(each, BaseException):
            raise each
    return collected


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(url, **settings)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def prepare(url: str, *, lanes: int, cap: int = 32, messages: int = 0) -> None:
    """An application with wide lanes, and a delivery for each of them in every message."""
    async with opened(url) as store:
        await store.add_application(Application("app_1", "x"))
        for number in range(lanes):
            await store.add_endpoint(Endpoint(f"ep_{number:02}", "app_1", "https://example.com", cap=cap))
        await execute(url, "UPDATE hookfuse.lanes SET width = cap")
        await store.accept([message(number) for number in range(messages)])


async def execute(url: str, statement: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetch(statement)
    finally:
        await connection.close()


async def until_someone_waits(connection: asyncpg.Connection) -> None:
    while not await connection.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted"):
        await asyncio.sleep(0.01)


def message(number: int, **settings: Any) -> NewMessage:
    return NewMessage(f"msg_{number:06}", "app_1", "type", b"{}", **settings)


def sent(claim: Claim) -> Settlement:
    return Settlement(claim, DeliveryState.SENT, "", healthy=True)


async def deliver_all(number: int, barrier: Barrier, url: str) -> list[Place]:
    """Work until nothing is left; returns what was delivered."""
    done = []
    async with opened(url) as store:
        await asyncio.to_thread(barrier.wait)
        while await store.count(OPEN):
            found = await store.claim(16, lease_ms=60_000, failing_limit=16)
            assert await store.settle([sent(claim) for claim in found.claims]) == []
            done += [Place(claim.message_id, claim.endpoint_id) for claim in found.claims]
    return done


def test_processes_share_the_work(postgres_url: str) -> None:
    """Four processes deliver 1,200 deliveries of 12 lanes: every one of them once."""
    asyncio.run(prepare(postgres_url, lanes=12, messages=100))
    delivered = Counter(place for one in run_processes(4, deliver_all, postgres_url) for place in one)
    assert len(delivered) == 1_200
    assert set(delivered.values()) == {1}
    lanes = asyncio.run(execute(postgres_url, "SELECT sum(in_flight) AS busy FROM hookfuse.lanes"))
    assert lanes[0]["busy"] == 0


async def repeat_keys(number: int, barrier: Barrier, url: str) -> list[Answer]:
    """Accept the same twenty keys, in an order of one's own, as one batch and one by one."""
    order = list(range(20))
    random.Random(number).shuffle(order)
    messages = [
        message(number * 1000 + key, idempotency_key=f"key_{key}", fingerprint=b"same", uid=f"uid_{key}")
        for key in order
    ]
    async with opened(url) as store:
        await asyncio.to_thread(barrier.wait)
        answers = list(await store.accept(messages[:10]))
        for each in await asyncio.gather(*(store.accept([each]) for each in messages[10:])):
            answers += each
    return answers


def test_idempotency_keys_hold_between_processes(postgres_url: str) -> None:
    """Eight processes send the same twenty keys at once: twenty messages, and everyone is told the same ids."""
    asyncio.run(prepare(postgres_url, lanes=1))
    answers = [answer for one in run_processes(8, repeat_keys, postgres_url) for answer in one]
    assert len(answers) == 160
    assert all(isinstance(answer, Accepted) for answer in answers)
    assert sum(not answer.repeated for answer in answers) == 20
    assert Counter(Counter(answer.id for answer in answers).values()) == {8: 20}
    stored = asyncio.run(execute(postgres_url, "SELECT count(*) FROM hookfuse.deliveries"))
    assert stored[0][0] == 20


async def start_store(number: int, barrier: Barrier, url: str) -> bool:
    barrier.wait()
    async with opened(url) as store:
        return await store.application("app_none") is None


def test_processes_start_at_once(postgres_url: str) -> None:
    """Eight processes that find an empty database make the schema once."""
    assert run_processes(8, start_store, postgres_url) == [True] * 8
    applied = asyncio.run(execute(postgres_url, "SELECT number FROM hookfuse.migrations ORDER BY number"))
    assert [row["number"] for row in applied] == list(range(1, len(applied) + 1))


async def work(store: PostgresStore, left: Counter[Place], done: asyncio.Event, chance: random.Random) -> None:
    """A worker that sleeps until it is told: it never looks again by itself."""
    while not done.is_set():
        found = await store.claim(chance.randrange(1, 6), lease_ms=600_000, failing_limit=100)
        ends = []
        for claim in found.claims:
            if chance.random() < 0.2:
                ends.append(Settlement(claim, DeliveryState.PENDING, "again"))
            else:
                ends.append(sent(claim))
                left[Place(claim.message_id, claim.endpoint_id)] -= 1
        if ends:
            await store.settle(ends)
            if not +left:
                done.set()
        elif found.wait_ms != 0:
            await store.wait(LONG if found.wait_ms is None else min(found.wait_ms / 1000, LONG))


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_no_wake_up_is_lost(postgres_url: str, anyio_backend: str) -> None:
    """Messages trickle into two narrow lanes while six workers fight for them: everything goes, and nobody polls."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")  # noqa: T201
    chance = random.Random(seed)
    await prepare(postgres_url, lanes=2, cap=3)
    left = Counter({Place(f"msg_{n:06}", f"ep_{lane:02}"): 1 for n in range(600) for lane in range(2)})
    done = asyncio.Event()

    async def feed(store: PostgresStore, numbers: range) -> None:
        for number in numbers:
            await store.accept([message(number)])

    async with opened(postgres_url) as one, opened(postgres_url) as two, opened(postgres_url) as three:
        async with asyncio.timeout(LONG - 10), asyncio.TaskGroup() as group:
            for store in (one, two, three):
                for _ in range(2):
                    group.create_task(work(store, left, done, random.Random(chance.random())))
            for first in range(3):
                group.create_task(feed(three, range(first, 600, 3)))
            await done.wait()
            for store in (one, two, three):
                store._bell.ring_here()
        assert await one.count(OPEN) == 0


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_lane_is_rung_as_it_is_now(postgres_url: str, anyio_backend: str) -> None:
    """A lane that another claim puts to sleep while a bell waits for it is woken by that bell."""
    await prepare(postgres_url, lanes=1)
    await execute(postgres_url, "UPDATE hookfuse.lanes SET fresh_ms = 1")
    other = await asyncpg.connect(postgres_url)
    try:
        async with opened(postgres_url) as store:
            await store.accept([message(1)])
            async with other.transaction():
                await other.fetch("SELECT 1 FROM hookfuse.lanes FOR UPDATE")
                claiming = asyncio.ensure_future(store.claim(1, lease_ms=60_000, failing_limit=1))
                await until_someone_waits(other)
                await other.execute("UPDATE hookfuse.lanes SET fresh_ms = NULL")
            assert len((await claiming).claims) == 1
    finally:
        await other.close()


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nobody_deadlocks(postgres_url: str, anyio_backend: str) -> None:
    """Batches that cross the same lanes in every order, and people who pause, retry and cancel, never deadlock."""
    await prepare(postgres_url, lanes=6, messages=60)
    chance = random.Random(7)
    ends = time.monotonic() + 4

    async def deliver(store: PostgresStore) -> None:
        while time.monotonic() < ends:
            claims = list((await store.claim(20, lease_ms=60_000, failing_limit=20)).claims)
            chance.shuffle(claims)
            await store.settle([sent(claim) for claim in claims])

    async def meddle(store: PostgresStore) -> None:
        while time.monotonic() < ends:
            pairs = [Place(f"msg_{chance.randrange(60):06}", f"ep_{chance.randrange(6):02}") for _ in range(30)]
            await store.retry(pairs)
            await store.cancel(pairs[:5])
            await store.pause_application("app_1", True)
            await store.pause_application("app_1", False)
            await store.unblock([f"ep_{chance.randrange(6):02}" for _ in range(6)])
            await store.accept([message(1_000 + chance.randrange(1 << 40)) for _ in range(5)])

    async with opened(postgres_url) as store, opened(postgres_url) as other, asyncio.TaskGroup() as group:
        for each in (store, other):
            for _ in range(3):
                group.create_task(deliver(each))
                group.create_task(meddle(each))
    found = await execute(postgres_url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert found[0]["deadlocks"] == 0


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_deadlock_of_others_is_survived(postgres_url: str, anyio_backend: str) -> None:
    """If somebody else's transaction makes a deadlock of a settle, the settle is tried again and done."""
    await prepare(postgres_url, lanes=2, messages=1)
    outsider = await asyncpg.connect(postgres_url)
    lock = "SELECT 1 FROM hookfuse.lanes WHERE endpoint_id = $1 FOR UPDATE"
    try:
        async with opened(postgres_url) as store:
            claims = (await store.claim(2, lease_ms=60_000, failing_limit=0)).claims
            assert len(claims) == 2
            async with outsider.transaction():
                await outsider.fetch(lock, "ep_01")
                settling = asyncio.ensure_future(store.settle([sent(claim) for claim in claims]))
                await until_someone_waits(outsider)
                await outsider.fetch(lock, "ep_00")
            assert await settling == []
            assert await store.count(OPEN) == 0
    finally:
        await outsider.close()
