"""What people do by hand: look, retry, cancel, forget."""

from __future__ import annotations

from hookfuse.core.delivery import Chosen, Deferral, DeliveryState, Place
from hookfuse.testing.delivery.bench import Bench, OnBench


class Handling(OnBench):
    async def test_retry_begins_anew(self, bench: Bench) -> None:
        """A retry by hand brings back a failed, sent, cancelled or waiting delivery at once, with a new schedule."""
        await bench.lane(cap=10)
        ids = [await bench.send() for _ in range(4)]
        claims = {claim.message_id: claim for claim in await bench.claim()}
        await bench.settle(claims[ids[0]], state=DeliveryState.FAILED)
        await bench.settle(claims[ids[1]])
        await bench.settle(claims[ids[2]], state=DeliveryState.PENDING, delay=3600)
        await bench.settle(claims[ids[3]], state=DeliveryState.PENDING, delay=3600)
        await bench.store.cancel([Place(ids[3], "ep_1")])
        assert await bench.store.retry([Place(id_, "ep_1") for id_ in (*ids, "msg_none")]) == 4
        again = await bench.claim()
        assert sorted(claim.message_id for claim in again) == ids
        assert {(claim.attempts, claim.spent) for claim in again} == {(1, 0)}

    async def test_an_attempt_that_was_asked_for(self, bench: Bench) -> None:
        """A claim says whether someone asked for the attempt, whatever made it wait; the next is the schedule's."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        assert not claim.manual
        await bench.settle(claim, state=DeliveryState.FAILED)
        await bench.store.retry([Place(id_, "ep_1")])
        (asked,) = await bench.claim()
        assert asked.manual
        await bench.store.defer([Deferral(asked, "breaker_open")])
        (again,) = await bench.claim()
        assert again.manual
        await bench.settle(again, state=DeliveryState.PENDING)
        (scheduled,) = await bench.claim()
        assert not scheduled.manual

    async def test_what_a_worker_holds_is_left_alone(self, bench: Bench) -> None:
        """A delivery in a worker's hands is neither retried nor cancelled by hand."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        assert await bench.store.retry([Place(id_, "ep_1")]) == 0
        assert await bench.store.cancel([Place(id_, "ep_1")]) == 0
        assert await bench.settle(claim) == []

    async def test_cancel_is_an_end(self, bench: Bench) -> None:
        """A cancelled delivery is never sent; one that has ended cannot be cancelled."""
        await bench.lane(cap=1)
        first, second = await bench.send(), await bench.send()
        (claim,) = await bench.claim()
        await bench.settle(claim)
        assert await bench.store.cancel([Place(first, "ep_1"), Place(second, "ep_1")]) == 1
        assert (await bench.delivery(second)).state is DeliveryState.CANCELLED
        assert await bench.claim() == ()

    async def test_choosing(self, bench: Bench) -> None:
        """Deliveries are chosen by endpoint, state, event type and time, counted, and read page by page."""
        await bench.lane("ep_a", cap=50)
        await bench.lane("ep_b", cap=50)
        await bench.application("app_2")
        await bench.endpoint("ep_c", "app_2")
        await bench.send("app_2")
        bench.clock.advance(10)
        start = bench.now_ms
        ids = [await bench.send(event_type="a" if number % 2 else "b") for number in range(10)]
        for claim in await bench.claim():
            if claim.endpoint_id == "ep_a":
                await bench.settle(claim, state=DeliveryState.FAILED)
        bench.clock.advance(10)
        await bench.send()
        failed = Chosen("app_1", states=(DeliveryState.FAILED,))
        assert await bench.store.count(failed) == 10
        some = Chosen("app_1", "ep_a", (DeliveryState.FAILED,), ("a",), since_ms=start, until_ms=start + 1)
        assert await bench.store.count(some) == 5
        assert await bench.store.count(Chosen("app_1", "ep_b", (DeliveryState.FAILED,))) == 0
        assert await bench.store.count(Chosen("app_1", since_ms=start + 1)) == 2
        seen: list[str] = []
        after = None
        while page := await bench.store.deliveries(failed, after=after, limit=3):
            seen += [each.message_id for each in page]
            after = Place(page[-1].message_id, page[-1].endpoint_id)
        assert seen == ids

    async def test_expunged(self, bench: Bench) -> None:
        """Expunging forgets the content, keeps the history, and cancels what still waits."""
        await bench.lane(cap=1)
        first, second = await bench.send(), await bench.send()
        (claim,) = await bench.claim()
        await bench.settle(claim)
        for id_ in (first, second):
            assert await bench.store.expunge("app_1", id_)
        assert not await bench.store.expunge("app_2", first)
        message = await bench.store.message("app_1", first)
        assert message is not None
        assert message.payload is None
        assert (await bench.delivery(second)).state is DeliveryState.CANCELLED
        assert await bench.store.retry([Place(first, "ep_1"), Place(second, "ep_1")]) == 0
        assert len(await bench.store.attempts(first)) == 1

    async def test_expunged_in_flight(self, bench: Bench) -> None:
        """A delivery that fails after its message was expunged is cancelled: nothing is ever sent without content."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        assert await bench.store.expunge("app_1", id_)
        assert await bench.settle(claim, state=DeliveryState.PENDING, delay=1) == []
        bench.clock.advance(1)
        assert await bench.claim() == ()
        found = await bench.delivery(id_)
        assert (found.state, found.reason, found.attempts) == (DeliveryState.CANCELLED, "expunged", 1)
        await bench.send()
        (claim,) = await bench.claim()
        assert claim.in_flight == 1
