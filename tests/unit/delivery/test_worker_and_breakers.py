"""What a worker does with what a breaker holds back, on both stores."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookfuse import Policy, State, Streak
from hookfuse.core.admission import Admission
from hookfuse.core.delivery import Chosen, DeliveryState
from hookfuse.core.sending import Request, SendResult
from hookfuse.delivery.worker import Worker
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing import ManualClock
from hookfuse.testing.postgres import store_with_clock
from hookfuse.testing.sender import answer
from tests.unit.delivery.conftest import Post, became

pytestmark = pytest.mark.anyio

NOT_SOON = {"delays": [86_400], "jitter": 0}
SOON = {"delays": [1] * 9, "jitter": 0}
SENT = Chosen("app_1", states=(DeliveryState.SENT,))


@pytest.fixture(params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database server; None: a file will do."""
    return str(request.getfixturevalue("postgres_url")) if request.param == "postgres" else None


@pytest.fixture
async def post(tmp_path: Path, server: str | None) -> AsyncIterator[Post]:
    if server is not None:
        async with store_with_clock(server, deadline=30) as (store, clock):
            yield Post(store, clock, at_once=False)
        return
    turned = ManualClock()
    file = SqliteStore(tmp_path / "hookfuse.db", clock=turned)
    await file.open()
    yield Post(file, turned, at_once=False)
    await file.close()


@pytest.fixture
def refused(post: Post, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of breakers that refused a delivery; it grows each time that a blocked lane is looked at."""
    keys: list[str] = []
    admit = post.breakers.admit

    async def noting(key: str) -> Admission:
        admission = await admit(key)
        if not admission.allowed:
            keys.append(key)
        return admission

    monkeypatch.setattr(post.breakers, "admit", noting)
    return keys


async def _trip(post: Post, worker: Worker) -> None:
    """One message, which fails and opens its breaker."""
    post.sender.answers = answer(500)
    await post.bench.send()
    await post.until_attempts(1)
    await post.until_quiet(worker)
    post.sender.answers = answer(200)


async def test_half_open_lets_its_probes_through(post: Post, refused: list[str]) -> None:
    """Of twenty that wait for a half-open breaker as many are sent as it takes probes, all once they succeed."""
    policy = Policy(trip=Streak(1), cool_off=10, probes=3, close_after=3, probe_lease=300)
    await post.endpoint(cap=20, policy=policy.to_dict(), retry=NOT_SOON)
    await post.bench.widen("ep_1")
    before = await post.store.count(SENT)
    async with post.working() as worker:
        await _trip(post, worker)
        await post.store.accept([post.bench.message() for _ in range(20)])
        await post.until_quiet(worker)
        assert len(post.sender.requests) == 1
        post.sender.hold()
        looked = len(refused)
        post.clock.advance(10.1)
        # The others that were claimed with them were refused, and are out of its hands again.
        await became(lambda: len(refused) > looked and worker.in_hand == 3)
        assert post.sender.in_flight == 3
        assert (await post.breakers.inspect("app_1/ep_1")).state is State.HALF_OPEN
        post.sender.let_go()
        await post.until(DeliveryState.SENT, before + 20)


async def test_a_block_is_looked_at_within_a_minute(post: Post, refused: list[str]) -> None:
    """Behind a breaker that is open for an hour a lane is looked at each minute, by the store's clock, not before."""
    policy = Policy(trip=Streak(1), cool_off=3600)
    await post.endpoint(policy=policy.to_dict(), retry=NOT_SOON)
    async with post.working() as worker:
        await _trip(post, worker)
        await post.bench.send()
        await became(lambda: len(refused) == 1)
        for minute in range(1, 4):
            await post.until_quiet(worker)
            post.clock.advance(59.9)
            await post.until_quiet(worker)
            assert len(refused) == minute
            post.clock.advance(0.1)
            await became(lambda minute=minute: len(refused) == minute + 1)  # type: ignore[misc]
    assert len(post.sender.requests) == 1


async def test_a_shared_breaker_parks_all_whom_it_guards(post: Post, refused: list[str]) -> None:
    """When one of two endpoints with the same breaker trips it, the other waits too, and both go once it is closed."""
    policy = Policy(trip=Streak(1), cool_off=3600).to_dict()
    for number, kind in ((1, "first"), (2, "second")):
        url = f"http://127.0.0.1:8{number}/"
        await post.endpoint(f"ep_{number}", url=url, event_types=[kind], breaker_key="both", policy=policy, retry=SOON)
    failing = asyncio.Event()

    def by_port(request: Request) -> SendResult:
        return answer(500 if request.destination.port == 81 and failing.is_set() else 200)

    post.sender.answers = by_port
    async with post.working() as worker:
        await post.bench.send(event_type="second")
        await post.until(DeliveryState.SENT, 1)
        failing.set()
        await post.bench.send(event_type="first")
        await post.until_attempts(2)
        await post.until_quiet(worker)
        id_ = await post.bench.send(event_type="second")
        await became(lambda: len(refused) > 0)
        await post.until_quiet(worker)
        found = await post.bench.delivery(id_, "ep_2")
        assert (found.state, found.reason, found.attempts) == (DeliveryState.PENDING, "breaker_open", 0)
        assert set(refused) == {"app_1/both"}
        assert len(post.sender.requests) == 2
        failing.clear()
        post.clock.advance(1.1)
        await post.breakers.reset("app_1/both")
        await post.until(DeliveryState.SENT, 3)
