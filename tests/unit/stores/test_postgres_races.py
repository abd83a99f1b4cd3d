"""Races on one Postgres, the lucky and the arranged ones: nobody sleeps over work, and nobody waits in a circle."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.core.delivery import DeliveryState, Place, Settlement
from hookfuse.core.message import Accepted
from hookfuse.stores.postgres import PostgresStore
from tests.unit.stores.postgres_scene import OPEN, execute, message, opened, prepare, sent, until_someone_waits

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

LONG = 60.0


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


async def test_a_claim_that_ends_during_a_rescue(postgres_url: str, anyio_backend: str) -> None:
    """A lane is looked at again when the lease of a claim ends that was made while a rescue waited for the lane."""
    await prepare(postgres_url, lanes=1, messages=3)
    other = await asyncpg.connect(postgres_url)
    try:
        async with opened(postgres_url) as store:
            (short,) = (await store.claim(1, lease_ms=1, failing_limit=1)).claims
            assert len((await store.claim(1, lease_ms=60_000, failing_limit=1)).claims) == 1
            await store.settle([sent(short)])
            async with other.transaction():
                # It holds the lane until its transaction ends.
                *taken, _ = await other.fetch(
                    "SELECT * FROM hookfuse.claim(13, 1, 0, 1, 0, 42, 10, ARRAY['', '', '', ''])"
                )
                assert len(taken) == 1
                rescuing = asyncio.ensure_future(store.rescue(deaths=3))
                await until_someone_waits(other)
            assert (await rescuing).returned + (await store.rescue(deaths=3)).returned == 1
    finally:
        await other.close()


async def test_claims_beside_one_another(postgres_url: str, anyio_backend: str) -> None:
    """While one claim holds as many lanes as it can serve, another finds as many beside it, of the same application."""
    await prepare(postgres_url, lanes=100, messages=1)
    # As if the bells had been rung: whoever rings one waits for its lanes.
    await execute(postgres_url, "WITH rung AS (DELETE FROM hookfuse.bells) UPDATE hookfuse.lanes SET fresh_ms = 1")
    other = await asyncpg.connect(postgres_url)
    try:
        async with opened(postgres_url) as store, other.transaction():
            *taken, _ = await other.fetch(
                "SELECT * FROM hookfuse.claim(13, 10, 0, 1, 60000, 42, 0, ARRAY['', '', '', ''])"
            )
            assert len(taken) == 10
            assert len((await store.claim(10, lease_ms=60_000, failing_limit=1)).claims) == 10
    finally:
        await other.close()


async def test_nobody_deadlocks(postgres_url: str, anyio_backend: str) -> None:
    """Batches that cross the same lanes in every order, and people who pause, retry and cancel, never deadlock."""
    await prepare(postgres_url, lanes=6, messages=60)
    chance = random.Random(7)
    ends = time.monotonic() + 4

    async def deliver(store: PostgresStore) -> None:
        while time.monotonic() < ends:
            claims = list((await store.claim(20, lease_ms=chance.choice([1, 60_000]), failing_limit=20)).claims)
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
            await store.change_endpoint(f"ep_{chance.randrange(6):02}", {"channels": chance.choice([None, ("eu",)])})
            await store.rescue(deaths=3)
            await store.accept([message(1_000 + chance.randrange(1 << 40)) for _ in range(5)])

    async with opened(postgres_url) as store, opened(postgres_url) as other, asyncio.TaskGroup() as group:
        for each in (store, other):
            for _ in range(3):
                group.create_task(deliver(each))
                group.create_task(meddle(each))
    found = await execute(postgres_url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    assert found[0]["deadlocks"] == 0


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


async def test_accepted_while_its_endpoint_is_deleted(postgres_url: str, anyio_backend: str) -> None:
    """A delivery that comes too late for a deleted endpoint is cancelled by the next claim, and not left behind."""
    await prepare(postgres_url, lanes=1)
    other = await asyncpg.connect(postgres_url)
    try:
        async with opened(postgres_url) as store:
            rival = other.transaction()
            await rival.start()
            # Who holds the key keeps the acceptance waiting after it has chosen its endpoints.
            await other.execute("INSERT INTO hookfuse.idempotency_keys VALUES ('app_1', 'key', '', 'msg_rival', 0, 0)")
            accepting = asyncio.ensure_future(store.accept([message(1, idempotency_key="key")]))
            await until_someone_waits(other)
            assert await store.delete_endpoint("ep_00")
            await rival.rollback()
            (answer,) = await accepting
            assert isinstance(answer, Accepted)
            assert answer.deliveries == 1
            assert (await store.claim(1, lease_ms=60_000, failing_limit=1)).claims == ()
            found = await store.delivery("msg_000001", "ep_00")
            assert found is not None
            assert (found.state, found.reason) == (DeliveryState.CANCELLED, "endpoint_deleted")
    finally:
        await other.close()


async def test_retried_while_it_is_pruned(postgres_url: str, anyio_backend: str) -> None:
    """A message whose delivery is being brought back by hand is not pruned under it."""
    await prepare(postgres_url, lanes=1, messages=1)
    other = await asyncpg.connect(postgres_url)
    try:
        async with opened(postgres_url) as store:
            (claim,) = (await store.claim(1, lease_ms=60_000, failing_limit=1)).claims
            await store.settle([sent(claim)])
            async with other.transaction():
                await other.fetch("SELECT 1 FROM hookfuse.deliveries FOR UPDATE")
                retrying = asyncio.ensure_future(store.retry([Place(claim.message_id, claim.endpoint_id)]))
                await until_someone_waits(other)
                assert await store.prune(older_than_ms=1 << 50) == 0
            assert await retrying == 1
            assert len((await store.claim(1, lease_ms=60_000, failing_limit=1)).claims) == 1
    finally:
        await other.close()
