"""What becomes of a claim whose answer is lost, comes late, or has nobody left to wait for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence

import pytest

from hookfuse.core.delivery import Chosen, Claims, DeliveryState
from hookfuse.errors import StoreUnavailable
from tests.unit.delivery.conftest import Post

pytestmark = pytest.mark.anyio

LANES = 8


async def _endpoints(post: Post) -> None:
    for number in range(LANES):
        await post.endpoint(f"ep_{number}")


async def _waiting(post: Post) -> None:
    """A message for a few endpoints: one claim takes all of its deliveries."""
    await _endpoints(post)
    await post.bench.send()


async def _untouched(post: Post, count: int = LANES) -> None:
    """So many deliveries wait as if nobody had claimed them."""
    found = await post.store.deliveries(Chosen("app_1"))
    assert [(each.state, each.attempts, each.deaths) for each in found] == [(DeliveryState.PENDING, 0, 0)] * count


async def _sent_once(post: Post, count: int = LANES) -> None:
    """So many deliveries are sent, with one request each, and no worker is said to have died."""
    await post.until(DeliveryState.SENT, count)
    assert len(post.sender.requests) == count
    assert {each.deaths for each in await post.store.deliveries(Chosen("app_1"))} == {0}


class Answers:
    """Claims of the real store, whose answers a test holds back or loses."""

    def __init__(self, post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made, self.told = asyncio.Event(), asyncio.Event()
        self.to_lose = 0
        self.to_drop = 0
        self.dropped: list[int] = []
        """Tokens of requests that did not reach the database."""
        self.looks = 0
        self.looks_to_fail = 0
        self.lock = asyncio.Lock()
        """Whoever holds it keeps the worker from claiming."""
        self.make, self._disclaim = post.store.claim, post.store.disclaim
        monkeypatch.setattr(post.store, "claim", self.claim)
        monkeypatch.setattr(post.store, "disclaim", self.disclaim)

    async def claim(self, limit: int, **more: int) -> Claims:
        if self.to_drop:
            self.to_drop -= 1
            self.dropped.append(more["token"])
            raise StoreUnavailable("The connection was cut.")
        async with self.lock:
            claims = await self.make(limit, **more)
        self.made.set()
        await self.told.wait()
        if self.to_lose:
            self.to_lose -= 1
            raise StoreUnavailable("The connection was cut.")
        return claims

    async def disclaim(self, tokens: Sequence[int]) -> Mapping[int, int]:
        self.looks += 1
        if self.looks_to_fail:
            self.looks_to_fail -= 1
            raise StoreUnavailable("The connection was cut again.")
        return await self._disclaim(tokens)


@pytest.fixture
def answers(post: Post, monkeypatch: pytest.MonkeyPatch) -> Answers:
    return Answers(post, monkeypatch)


async def test_a_cancelled_worker_waits_for_its_claim(post: Post, answers: Answers) -> None:
    """A worker that is cancelled while a claim is under way gives back what it brings, and sends none of it."""
    await _waiting(post)
    running = asyncio.create_task(post.worker().run())
    await answers.made.wait()
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=0.05)
    assert not done
    answers.told.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    await _untouched(post)
    assert answers.looks == 0
    assert post.sender.requests == []


async def test_a_cancelled_worker_does_not_wait_for_ever(post: Post, answers: Answers) -> None:
    """If the claim is not answered in time, the worker ends without it, and gives back what carries its token."""
    await _waiting(post)
    running = asyncio.create_task(post.worker(margin=0.1).run())
    await answers.made.wait()
    running.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert 0.1 <= time.monotonic() - began < 5
    await _untouched(post)


async def test_cancelled_at_any_moment(post: Post) -> None:
    """Whenever a worker is cancelled, nothing stays in its hands, and no delivery is sent twice."""
    await _waiting(post)
    for moment in range(60):
        running = asyncio.create_task(post.worker(grace=0).run())
        await asyncio.sleep(moment / 20_000)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert await post.store.count(Chosen("app_1", states=(DeliveryState.SENDING,))) == 0
    async with post.working():
        await _sent_once(post)


async def test_a_lost_answer(post: Post, answers: Answers) -> None:
    """What a claim took whose answer was lost is sent soon after, once, and counts no death."""
    await _waiting(post)
    answers.to_lose = 3
    answers.told.set()
    async with post.working():
        await _sent_once(post)


async def test_nothing_is_looked_for_if_nothing_was_lost(post: Post, answers: Answers) -> None:
    """While every claim is answered, none is looked for; nor are those that were found, ever again."""
    await _waiting(post)
    answers.told.set()
    async with post.working() as worker:
        await _sent_once(post)
        assert answers.looks == 0
        async with answers.lock:
            await post.bench.send()
            answers.to_lose = 1
        await _sent_once(post, 2 * LANES)
        assert worker._claimer._unanswered == {}
        looks = answers.looks
        await post.until_quiet(worker)
    assert answers.looks == looks


async def test_a_claim_that_is_made_late(post: Post, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim that the database makes after it was looked for in vain is found by a later look."""
    await _endpoints(post)

    async def look(tokens: Sequence[int]) -> Mapping[int, int]:
        found = await answers.disclaim(tokens)
        if answers.looks == 1:
            assert not found
            async with answers.lock:
                await post.bench.send()
                late = await answers.make(100, lease_ms=300_000, failing_limit=0, token=answers.dropped[0])
                assert len(late.claims) == LANES
        return found

    monkeypatch.setattr(post.store, "disclaim", look)
    answers.to_drop = 1
    answers.told.set()
    async with post.working() as worker:
        await _sent_once(post)
        assert answers.looks > 1
        assert worker._claimer._unanswered == {}


async def test_giving_back_may_fail(post: Post, answers: Answers) -> None:
    """If giving back fails as well, others are served meanwhile, and it is tried again."""
    await _waiting(post)
    answers.to_lose, answers.looks_to_fail = 1, 2
    answers.told.set()
    async with post.working():
        await answers.made.wait()
        await post.endpoint("ep_other", event_types=["other"])
        await post.bench.send(event_type="other")
        await _sent_once(post, 2 * LANES + 1)
    assert answers.looks == 3


async def test_a_worker_that_stops_after_a_lost_answer(post: Post, answers: Answers) -> None:
    """A worker that is told to stop before the next claim gives back what the lost one took, as soon as it can."""
    await _waiting(post)
    answers.to_lose, answers.looks_to_fail = 1, 1
    worker = post.worker()
    running = asyncio.create_task(worker.run())
    await answers.made.wait()
    worker.stop()
    answers.told.set()
    await running
    await _untouched(post)
    assert answers.looks == 2


async def test_a_look_that_is_not_answered(post: Post, answers: Answers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that ends while it looks for what a lost claim took leaves no task behind."""
    await _waiting(post)
    looking = asyncio.Event()

    async def never(tokens: Sequence[int]) -> Mapping[int, int]:
        looking.set()
        await asyncio.Event().wait()
        return {}

    monkeypatch.setattr(post.store, "disclaim", never)
    answers.to_lose = 1
    answers.told.set()
    async with post.working(margin=0.1):
        await looking.wait()
    assert "hookfuse-disclaim" not in {task.get_name() for task in asyncio.all_tasks()}
