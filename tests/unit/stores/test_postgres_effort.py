"""How much the verbs read, whatever waits: counted by Postgres itself, so it is the plan that ran and not a guess."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.core.delivery import Attempt, Chosen, Claim, Deferral, DeliveryState, Place, Settlement
from hookfuse.core.message import NewMessage
from hookfuse.stores.postgres import PostgresStore
from hookfuse.testing.postgres import store_with_clock
from tests.unit.stores.postgres_scene import execute, message, prepare, sent

LANES = 2_000
DELIVERIES = 50_000
TAKEN = 100

# One endpoint has half of everything; the others share the rest.
FILL = f"""
INSERT INTO hookfuse.applications (id, name, created_ms, updated_ms)
SELECT 'app_' || a, 'x', 0, 0 FROM generate_series(0, 99) AS a;
INSERT INTO hookfuse.endpoints (id, app_id, url, event_types, cap, timeout_ms, created_ms, updated_ms)
SELECT 'ep_' || e, 'app_' || e % 100, 'https://example.com', ARRAY['type_' || e / 100], 32, 1000, 0, 0
FROM generate_series(0, {LANES - 1}) AS e;
INSERT INTO hookfuse.lanes (endpoint_id, app_id, cap, width, fresh_ms, late_ms)
SELECT id, app_id, 32, 32, 1, 1 FROM hookfuse.endpoints;
INSERT INTO hookfuse.messages (id, app_id, event_type, created_ms, payload)
SELECT 'old_' || lpad(m::text, 8, '0'), 'app_' || m % 100, 'type_0', 1, 'x' FROM generate_series(1, {DELIVERIES}) AS m;
INSERT INTO hookfuse.deliveries (message_id, endpoint_id, app_id, queue, place, due_ms, first_ms, created_ms)
SELECT 'old_' || lpad(m::text, 8, '0'), 'ep_' || lane, 'app_' || lane % 100, CASE WHEN m % 6 = 5 THEN 1 ELSE 0 END,
       m, m, m, 1
FROM (
    SELECT m, CASE WHEN m % 2 = 0 THEN 0 ELSE m / 2 % {LANES} END AS lane FROM generate_series(1, {DELIVERIES}) AS m
) AS each;
"""
SCANS = "SELECT relname::text, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'hookfuse'"
READS = "SELECT relname::text, idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = 'hookfuse'"
TURN_READS = "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname LIKE 'lanes_%_app'"
SESSIONS = (
    "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'hookfuse %' AND datname = current_database()"
)

UPDATES = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = '{}'"

LARGE = ("lanes", "deliveries", "messages", "attempts")

Work = Callable[[PostgresStore], Awaitable[object]]


async def measure(url: str, work: Work) -> tuple[dict[str, int], dict[str, int]]:
    """By table: how often it was read from end to end, and how many index entries were read."""
    watcher = await asyncpg.connect(url)
    try:
        before = await _counters(watcher)
        store = PostgresStore(url)
        await store.open()
        try:
            await work(store)
        finally:
            await store.close()
        # Sessions count what they did at the latest when they end.
        while await watcher.fetchval(SESSIONS):
            await asyncio.sleep(0.01)
        after = await _counters(watcher)
    finally:
        await watcher.close()
    return tuple({name: now[name] - then[name] for name in now} for then, now in zip(before, after, strict=True))  # type: ignore[return-value]


async def _counters(watcher: asyncpg.Connection) -> list[Counter[str]]:
    counters = []
    for query in (SCANS, READS):
        counter: Counter[str] = Counter()
        for name, number in await watcher.fetch(query):
            counter[name] += number
        counters.append(counter)
    return counters


@pytest.fixture(params=["analyzed", "never analyzed"])
def full_url(postgres_url: str, request: pytest.FixtureRequest) -> str:
    """A database with many lanes and deliveries, whose planner knows about them or does not."""

    async def fill() -> None:
        store = PostgresStore(postgres_url)
        await store.open()
        await store.close()
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(FILL)
        if request.param == "analyzed":
            await connection.execute("VACUUM ANALYZE")
        await connection.close()

    asyncio.run(fill())
    return postgres_url


def settlement(claim: Claim, number: int) -> Settlement:
    attempt = Attempt(
        f"atmpt_{claim.message_id}_{claim.endpoint_id}_{number}",
        claim.message_id,
        claim.endpoint_id,
        claim.app_id,
        1,
        1,
        200,
        "",
        1,
        b"",
        "",
    )
    states = (DeliveryState.SENT, DeliveryState.PENDING, DeliveryState.FAILED)
    return Settlement(claim, states[number % 3], "", attempt=attempt, healthy=number % 3 == 0)


def check(url: str, work: Work, most: int, tables: Sequence[str] = LARGE) -> None:
    scans, reads = asyncio.run(measure(url, work))
    assert {name: scans[name] for name in tables} == dict.fromkeys(tables, 0), "read from end to end"
    assert max(reads[name] for name in LARGE) <= most, reads


def test_claim_and_settle_read_what_they_take(full_url: str) -> None:
    """With 50,000 deliveries in 2,000 lanes a worker's round reads a few index entries for each one it takes."""
    rounds = 5

    async def work(store: PostgresStore) -> None:
        for _ in range(rounds):
            found = await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)
            assert len(found.claims) == TAKEN
            ends = [settlement(claim, number) for number, claim in enumerate(found.claims[10:])]
            assert await store.settle(ends) == []
            await store.defer([Deferral(claim, "open", wait_ms=1000) for claim in found.claims[:10]])

    check(full_url, work, most=rounds * TAKEN * 30)


def test_turns_beside_an_old_snapshot(full_url: str) -> None:
    """While someone reads an old snapshot, whose turn it is can be told without what lanes once had in the index."""
    rounds = 60

    async def work(store: PostgresStore) -> None:
        reader = await asyncpg.connect(full_url)
        async with reader.transaction(isolation="repeatable_read"):
            await reader.fetch("SELECT 1 FROM hookfuse.lanes LIMIT 1")
            for _ in range(rounds):
                found = await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)
                assert await store.settle([settlement(claim, 0) for claim in found.claims]) == []
        await reader.close()

    asyncio.run(measure(full_url, work))
    reads = asyncio.run(execute(full_url, TURN_READS))
    assert reads[0][0] <= rounds * TAKEN * 30


def test_rescue_reads_what_is_with_workers(full_url: str) -> None:
    """Lost leases are found without a look at the thousands that wait behind them, and others are not looked for."""

    async def work(store: PostgresStore) -> None:
        await store.claim(TAKEN, lease_ms=1, failing_limit=10)
        await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)
        rescued = 0
        while rescued < TAKEN:
            rescued += (await store.rescue(deaths=3)).returned
        for _ in range(100):
            assert (await store.rescue(deaths=3)).returned == 0

    scans, reads = asyncio.run(measure(full_url, work))
    assert scans["deliveries"] == 0
    assert reads["deliveries"] <= TAKEN * 50, reads


def test_giving_back_a_lost_claim_reads_what_is_with_workers(full_url: str) -> None:
    """What a lost claim took is found by its token without a look at the thousands that wait behind it."""
    looks = 10

    async def work(store: PostgresStore) -> None:
        await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)
        await store.claim(TAKEN, lease_ms=60_000, failing_limit=10, token=1)
        assert await store.disclaim([1]) == {1: TAKEN}
        for _ in range(looks):
            assert await store.disclaim([1]) == {}

    scans, reads = asyncio.run(measure(full_url, work))
    assert scans["deliveries"] == 0
    assert reads["deliveries"] <= (2 + looks) * TAKEN * 15, reads


def test_a_lost_claim_behind_many(postgres_url: str) -> None:
    """Where much has come before what a lost claim took, its lane is looked through, and everything is found."""
    asyncio.run(prepare(postgres_url, lanes=2, messages=500))

    async def work(store: PostgresStore) -> None:
        assert len((await store.claim(6, lease_ms=60_000, failing_limit=1, token=1)).claims) == 6
        assert len((await store.claim(6, lease_ms=60_000, failing_limit=1)).claims) == 6
        await execute(postgres_url, "UPDATE hookfuse.deliveries SET place = 0 WHERE token IS NULL")
        assert await store.disclaim([1]) == {1: 6}
        (in_flight,) = await execute(postgres_url, "SELECT sum(in_flight) FROM hookfuse.lanes")
        assert in_flight[0] == 6

    asyncio.run(measure(postgres_url, work))


def test_a_lane_that_counts_too_many(postgres_url: str) -> None:
    """Where a lane believes to have more in flight than it has, a rescue looks through all of it once, and mends it."""
    asyncio.run(prepare(postgres_url, lanes=1, messages=500))

    async def work(store: PostgresStore) -> None:
        assert len((await store.claim(3, lease_ms=1, failing_limit=1)).claims) == 3
        await execute(postgres_url, "UPDATE hookfuse.lanes SET in_flight = in_flight + 2")
        assert (await store.rescue(deaths=3)).returned == 3
        assert (await store.rescue(deaths=3)).returned == 0
        (lane,) = await execute(postgres_url, "SELECT in_flight, lease_ms FROM hookfuse.lanes")
        assert tuple(lane) == (0, None)

    asyncio.run(measure(postgres_url, work))


def test_a_claim_rings_some_lanes(postgres_url: str) -> None:
    """However many lanes a message is for, a claim rings a few thousand at most, and the rest is rung by the next."""
    lanes = 5_000
    many = f"""
    INSERT INTO hookfuse.applications (id, name, created_ms, updated_ms) VALUES ('app_1', 'x', 0, 0);
    INSERT INTO hookfuse.endpoints (id, app_id, url, cap, timeout_ms, created_ms, updated_ms)
    SELECT 'ep_' || e, 'app_1', 'https://example.com', 8, 1000, 0, 0 FROM generate_series(1, {lanes}) AS e;
    INSERT INTO hookfuse.lanes (endpoint_id, app_id, cap) SELECT id, 'app_1', 8 FROM hookfuse.endpoints;
    """

    async def work(store: PostgresStore) -> None:
        for statement in many.split(";\n")[:-1]:
            await execute(postgres_url, statement)
        await store.accept([message(1)])
        claimed = len((await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)).claims)
        (known,) = await execute(postgres_url, "SELECT count(*) FROM hookfuse.lanes WHERE fresh_ms IS NOT NULL")
        assert 0 < known[0] <= 64 * 50
        while claims := (await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)).claims:
            claimed += len(claims)
        assert claimed == lanes

    asyncio.run(measure(postgres_url, work))


def test_accept_reads_what_it_stores(full_url: str) -> None:
    """Accepting a batch reads no lane, no waiting delivery, and no endpoint of others."""

    async def work(store: PostgresStore) -> None:
        for batch in range(5):
            messages = [
                NewMessage(
                    f"msg_{batch}_{n:03}",
                    f"app_{n}",
                    f"type_{n % 20}",
                    b"{}",
                    uid=f"uid_{batch}_{n}",
                    idempotency_key=f"key_{batch}_{n}",
                )
                for n in range(100)
            ]
            assert len(await store.accept(messages)) == 100
            assert len(await store.accept(messages)) == 100

    check(full_url, work, most=5 * 100 * 4, tables=(*LARGE, "endpoints"))


def test_pruning_reads_what_is_old(full_url: str) -> None:
    """What is too old is counted and removed without a look at the messages that are not."""
    old = 300
    are_old = f"< 'old_{old + 1:08}'"
    asyncio.run(execute(full_url, f"UPDATE hookfuse.messages SET created_ms = 0 WHERE id {are_old}"))
    asyncio.run(execute(full_url, f"DELETE FROM hookfuse.deliveries WHERE message_id {are_old}"))

    async def work(store: PostgresStore) -> None:
        assert await store.older(1) == old
        assert await store.prune(older_than_ms=1, limit=20) == 20
        assert await store.prune(older_than_ms=0) == 0

    check(full_url, work, most=old * 3, tables=("messages",))


def test_the_desk_finds_its_rows(full_url: str) -> None:
    """Looking a delivery up, retrying and cancelling it, and a page of what has failed read no more than that."""

    async def work(store: PostgresStore) -> None:
        pairs = [Place(f"old_{m:08}", f"ep_{m // 2}") for m in range(1, 99, 4)]
        assert await store.retry(pairs) == len(pairs)
        assert await store.cancel(pairs) == len(pairs)
        for pair in pairs:
            assert await store.delivery(*pair) is not None
            assert await store.attempts(pair.message_id) == []
        await store.deliveries(Chosen("app_1", states=(DeliveryState.FAILED,)), limit=10)

    check(full_url, work, most=2_000, tables=("deliveries", "messages"))


def test_a_lane_is_updated_in_place(postgres_url: str) -> None:
    """A lane that is served as soon as it is rung is written twice, by claim and settle, and no index hears of it."""
    rounds, lanes = 20, 10
    asyncio.run(prepare(postgres_url, lanes=lanes))

    async def work(store: PostgresStore) -> None:
        for number in range(rounds):
            await store.accept([message(number)])
            found = await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)
            assert len(found.claims) == lanes
            assert await store.settle([sent(claim) for claim in found.claims]) == []

    asyncio.run(measure(postgres_url, work))
    updates, in_place = asyncio.run(execute(postgres_url, UPDATES.format("lanes")))[0]
    # Preparing writes each lane once; that may be counted by now.
    assert 2 * rounds * lanes <= in_place <= updates <= (2 * rounds + 1) * lanes
    assert updates - in_place <= lanes


def test_a_busy_lane_is_updated_in_place(postgres_url: str) -> None:
    """A lane that always has more than a claim takes moves in the indexes five times a second, not each time."""
    rounds, lanes, each = 20, 10, 2
    asyncio.run(prepare(postgres_url, lanes=lanes, messages=rounds * each + 1))

    async def serve() -> None:
        async with store_with_clock(postgres_url) as (store, clock):
            clock.advance(4_000_000_000)
            for number in range(rounds):
                clock.advance(0.3 if number == rounds // 2 else 0.001)
                found = await store.claim(lanes * each, lease_ms=60_000, failing_limit=10)
                assert len(found.claims) == lanes * each
                assert await store.settle([sent(claim) for claim in found.claims]) == []

    async def work(store: PostgresStore) -> None:
        await serve()

    asyncio.run(measure(postgres_url, work))
    updates, in_place = asyncio.run(execute(postgres_url, UPDATES.format("lanes")))[0]
    assert updates >= 2 * rounds * lanes
    # As it is made, as it is rung, and when it has stayed long enough.
    assert updates - in_place <= 3 * lanes


def test_a_claim_is_written_in_place(postgres_url: str) -> None:
    """A delivery that is claimed stays where it is in every index; only its settlement moves it."""
    rounds, lanes = 20, 20
    asyncio.run(prepare(postgres_url, lanes=lanes))

    async def work(store: PostgresStore) -> None:
        for number in range(rounds):
            await store.accept([message(number)])
            found = await store.claim(TAKEN, lease_ms=60_000, failing_limit=10)
            assert await store.settle([sent(claim) for claim in found.claims]) == []

    asyncio.run(measure(postgres_url, work))
    updates, in_place = asyncio.run(execute(postgres_url, UPDATES.format("deliveries")))[0]
    assert updates == 2 * rounds * lanes
    assert in_place >= 0.9 * rounds * lanes
