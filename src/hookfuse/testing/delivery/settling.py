"""What settling and rescuing promise: a stale worker changes nothing, a lost one loses nothing."""

from __future__ import annotations

import asyncio

from hookfuse.core.delivery import Chosen, DeliveryState, Place, Settlement
from hookfuse.testing.delivery.bench import LEASE, Bench, OnBench


class Settling(OnBench):
    async def test_sent_is_an_end(self, bench: Bench) -> None:
        """A sent delivery has its attempt on record and is never claimed again."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        assert (await bench.delivery(id_)).state is DeliveryState.SENDING
        assert await bench.settle(claim) == []
        found = await bench.delivery(id_)
        assert (found.state, found.attempts, found.due_ms) == (DeliveryState.SENT, 1, None)
        assert found.ended_ms == bench.now_ms
        (attempt,) = await bench.store.attempts(id_)
        assert (attempt.number, attempt.status, attempt.response, attempt.latency_ms) == (1, 200, b"ok", 12)
        bench.clock.advance(86_400)
        assert await bench.claim() == ()

    async def test_a_retry_comes_back_when_it_is_due(self, bench: Bench) -> None:
        """A delivery to be retried waits for its delay, to the millisecond, and counts what it spent."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        await bench.settle(claim, state=DeliveryState.PENDING, delay=30, reason="status_500", healthy=False)
        found = await bench.delivery(id_)
        assert (found.state, found.attempts, found.spent, found.reason) == (DeliveryState.PENDING, 1, 1, "status_500")
        assert found.due_ms == bench.now_ms + 30_000
        bench.clock.advance(29.999)
        assert await bench.claim() == ()
        bench.clock.advance(0.001)
        (claim,) = await bench.claim()
        assert (claim.attempts, claim.spent) == (1, 1)

    async def test_what_was_our_fault_spends_nothing(self, bench: Bench) -> None:
        """An attempt that failed for our own fault is on record, but uses up no step of the schedule."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        await bench.settle(claim, state=DeliveryState.PENDING, delay=1, spent=False)
        found = await bench.delivery(id_)
        assert (found.attempts, found.spent) == (1, 0)

    async def test_a_stale_settle_changes_nothing(self, bench: Bench) -> None:
        """A worker whose lease was lost cannot settle: not before the next claim, nor after it, nor after the end."""
        await bench.lane()
        id_ = await bench.send()
        (old,) = await bench.claim()
        bench.clock.advance(LEASE)
        await bench.store.rescue(deaths=3)
        before = await bench.delivery(id_)
        assert await bench.settle(old, state=DeliveryState.FAILED) == [old]
        assert await bench.delivery(id_) == before
        (new,) = await bench.claim()
        assert await bench.settle(old, state=DeliveryState.FAILED) == [old]
        assert (await bench.delivery(id_)).state is DeliveryState.SENDING
        assert await bench.settle(new) == []
        assert await bench.settle(old, state=DeliveryState.FAILED) == [old]
        assert await bench.settle(new, state=DeliveryState.PENDING) == [new]
        assert (await bench.delivery(id_)).state is DeliveryState.SENT
        assert len(await bench.store.attempts(id_)) == 1

    async def test_a_stale_and_a_valid_settle_in_one_batch(self, bench: Bench) -> None:
        """Of two settlements of one delivery the one with the lost lease leaves nothing behind, and is told."""
        await bench.lane()
        (before,) = await bench.store.seen(600_000, {})
        id_ = await bench.send()
        (old,) = await bench.claim()
        bench.clock.advance(LEASE)
        await bench.store.rescue(deaths=3)
        (new,) = await bench.claim()
        made = [bench.attempt(claim) for claim in (old, new)]
        both = [
            Settlement(claim, DeliveryState.SENT, "ok", attempt, healthy=True)
            for claim, attempt in zip((old, new), made, strict=True)
        ]
        assert list(await bench.store.settle(both)) == [old]
        assert [each.id for each in await bench.store.attempts(id_)] == [made[1].id]
        (after,) = await bench.store.seen(600_000, {})
        assert after.counts.ok == before.counts.ok + 1

    async def test_rescue_waits_for_the_lease(self, bench: Bench) -> None:
        """A delivery in a worker's hands comes back when its lease ends and not before."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        bench.clock.advance(LEASE - 0.001)
        assert (await bench.store.rescue(deaths=3)).returned == 0
        assert await bench.claim() == ()
        bench.clock.advance(0.001)
        assert (await bench.store.rescue(deaths=3)).returned == 1
        found = await bench.delivery(id_)
        assert (found.state, found.deaths, found.reason) == (DeliveryState.PENDING, 1, "worker_lost")
        (again,) = await bench.claim()
        assert (again.message_id, again.deaths) == (claim.message_id, 1)
        assert again.token != claim.token
        assert again.in_flight == 1

    async def test_rescue_of_many(self, bench: Bench) -> None:
        """However many lanes a lost worker served, rescuing until there is no more brings everything back."""
        lanes = 120
        await bench.application()
        for number in range(lanes):
            await bench.endpoint(f"ep_{number}")
        for _ in range(2):
            await bench.send()
        claimed = len(await bench.claim(limit=1_000))
        assert claimed >= lanes
        bench.clock.advance(LEASE)
        returned, more = 0, True
        while more:
            rescued = await bench.store.rescue(deaths=3, limit=50)
            returned, more = returned + rescued.returned, rescued.more
        assert returned == claimed
        assert not (await bench.store.rescue(deaths=3)).more

    async def test_a_message_that_kills_workers_is_quarantined(self, bench: Bench) -> None:
        """A delivery that lost three workers has failed, and says why; a retry by hand begins anew."""
        await bench.lane()
        id_ = await bench.send()
        for _ in range(2):
            assert len(await bench.claim()) == 1
            bench.clock.advance(LEASE)
            assert (await bench.store.rescue(deaths=3)).quarantined == ()
        assert len(await bench.claim()) == 1
        bench.clock.advance(LEASE)
        rescued = await bench.store.rescue(deaths=3)
        assert rescued.quarantined == (Place(id_, "ep_1"),)
        found = await bench.delivery(id_)
        assert (found.state, found.reason, found.deaths) == (DeliveryState.FAILED, "quarantined", 3)
        assert await bench.claim() == ()
        assert await bench.store.retry([Place(id_, "ep_1")]) == 1
        (claim,) = await bench.claim()
        assert claim.deaths == 0

    async def test_two_rescue_at_once(self, bench: Bench) -> None:
        """However many rescue at once, a lost worker counts once."""
        await bench.lane(cap=10)
        ids = [await bench.send() for _ in range(10)]
        await bench.claim()
        bench.clock.advance(LEASE)
        rescued = await asyncio.gather(*(bench.store.rescue(deaths=3) for _ in range(5)))
        assert sum(each.returned for each in rescued) == 10
        for id_ in ids:
            assert (await bench.delivery(id_)).deaths == 1
        assert len(await bench.claim()) == 10

    async def test_a_batch_of_settlements(self, bench: Bench) -> None:
        """One batch may hold every kind of end, for many lanes, and stale ones between them."""
        await bench.lane("ep_a", cap=8)
        await bench.lane("ep_b", cap=8)
        for _ in range(4):
            await bench.send()
        claims = sorted(await bench.claim(), key=lambda claim: (claim.endpoint_id, claim.message_id))
        assert len(claims) == 8
        await bench.settle(claims[7])
        states = [DeliveryState.SENT, DeliveryState.FAILED, DeliveryState.PENDING, DeliveryState.SENT] * 2
        stale = await bench.store.settle(
            [
                Settlement(claim, state, "test", attempt=bench.attempt(claim), delay_ms=5_000, healthy=None)
                for claim, state in zip(claims, states, strict=True)
            ]
        )
        assert list(stale) == [claims[7]]
        assert await bench.store.count(Chosen("app_1", states=(DeliveryState.FAILED,))) == 2
        assert await bench.store.count(Chosen("app_1", states=(DeliveryState.PENDING,))) == 2
        bench.clock.advance(5)
        assert len(await bench.claim()) == 2

    async def test_two_ends_of_one_claim(self, bench: Bench) -> None:
        """A claim that is settled twice in one batch ends once, and its lane has room for one more, not two."""
        await bench.lane(cap=2)
        first, other, _ = [await bench.send() for _ in range(3)]
        claim = next(claim for claim in await bench.claim() if claim.message_id == first)
        twice = [
            Settlement(claim, DeliveryState.SENT, "sent", attempt=bench.attempt(claim)),
            Settlement(claim, DeliveryState.PENDING, "again", delay_ms=1),
        ]
        await bench.store.settle(twice)
        assert (await bench.delivery(first)).state is DeliveryState.SENT
        (third,) = await bench.claim()
        assert third.in_flight == 2
        bench.clock.advance(1)
        assert await bench.claim() == ()
        assert (await bench.delivery(other)).state is DeliveryState.SENDING

    async def test_an_odd_response_is_kept(self, bench: Bench) -> None:
        """Whatever bytes and texts an endpoint answers with, they are stored and read back."""
        await bench.lane()
        id_ = await bench.send()
        (claim,) = await bench.claim()
        attempt = bench.attempt(
            claim, status=None, trouble="protocol", response=b"\x00\xff<script>", detail="bad: \u2028'\"; DROP TABLE"
        )
        await bench.store.settle([Settlement(claim, DeliveryState.FAILED, "protocol", attempt=attempt)])
        assert await bench.store.attempts(id_) == [attempt]

    async def test_a_text_that_does_not_fit(self, bench: Bench) -> None:
        """Texts that a database cannot hold are stored without what does not fit: they cannot keep a batch open."""
        await bench.lane(cap=2)
        first, second = await bench.send(), await bench.send()
        claims = await bench.claim()
        hostile = "reset by \x00 peer \ud800!"
        stale = await bench.store.settle(
            [
                Settlement(claim, DeliveryState.FAILED, hostile, attempt=bench.attempt(claim, detail=hostile))
                for claim in claims
            ]
        )
        assert list(stale) == []
        for id_ in (first, second):
            (attempt,) = await bench.store.attempts(id_)
            assert attempt.detail.startswith("reset by ")
            assert (await bench.delivery(id_)).reason == attempt.detail

    async def test_prune_forgets_only_what_has_ended(self, bench: Bench) -> None:
        """Old messages go with their deliveries and attempts, in bounded steps; one with an open delivery stays."""
        await bench.lane("ep_a", cap=10)
        await bench.lane("ep_b", cap=10)
        while await bench.store.prune(older_than_ms=bench.now_ms + 1):
            pass
        ids = [await bench.send() for _ in range(5)]
        for claim in await bench.claim():
            if (claim.message_id, claim.endpoint_id) != (ids[2], "ep_b"):
                await bench.settle(claim)
        bench.clock.advance(3600)
        recent = await bench.send()
        cut = bench.now_ms - 1000
        assert await bench.store.older(cut) == 5
        assert await bench.store.prune(older_than_ms=cut, limit=3) == 3
        assert await bench.store.prune(older_than_ms=cut, limit=3) == 1
        assert await bench.store.prune(older_than_ms=cut, limit=3) == 0
        kept = [id_ for id_ in (*ids, recent) if await bench.store.message("app_1", id_) is not None]
        assert kept == [ids[2], recent]
        assert await bench.store.attempts(ids[0]) == []
