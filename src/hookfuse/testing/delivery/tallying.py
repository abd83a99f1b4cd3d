"""What tallies promise: every outcome that says something about its endpoint is counted once, in its slot."""

from __future__ import annotations

from hookfuse.core.delivery import Claim, DeliveryState, Settlement
from hookfuse.core.duty import Duty
from hookfuse.core.tally import SLOT_MS, Guarded, Seen
from hookfuse.core.window import Counts
from hookfuse.testing.delivery.bench import Bench, OnBench

_HOUR_MS = 3_600_000


class Tallying(OnBench):
    async def test_outcomes_are_counted(self, bench: Bench) -> None:
        """Settling counts successes, failures, slow ones and latencies by endpoint, all in its own transaction."""
        await self._two_lanes(bench)
        for _ in range(3):
            await bench.send()
        claims: dict[str, list[Claim]] = {"ep_a": [], "ep_b": []}
        for claim in await bench.claim():
            claims[claim.endpoint_id].append(claim)
        one, two, three = claims["ep_a"]
        await bench.settle(one, slow=True)
        await bench.settle(two, state=DeliveryState.PENDING, healthy=False, delay=60)
        await bench.settle(three, state=DeliveryState.FAILED, healthy=False)
        await bench.settle(*claims["ep_b"])
        assert await self._counts(bench) == {"ep_a": Counts(1, 2, 1, 3, 36), "ep_b": Counts(3, 0, 0, 3, 36)}

    async def test_what_says_nothing_is_not_counted(self, bench: Bench) -> None:
        """Our own faults, throttled attempts, claims without a request and stale settlements count for nobody."""
        await self._two_lanes(bench)
        await bench.send()
        claims = await bench.claim()
        await bench.settle(claims[0], state=DeliveryState.PENDING, healthy=None, spent=False)
        await bench.store.settle([Settlement(claims[1], DeliveryState.CANCELLED, "endpoint_missing", spent=False)])
        assert await bench.settle(*claims) == list(claims)
        assert await self._counts(bench) == {}

    async def test_an_attempt_counts_when_it_began(self, bench: Bench) -> None:
        """A slot holds what began in it, however late it ends; looking back so far finds it, and less far does not."""
        await self._two_lanes(bench)
        await bench.send()
        began_ms, claims = bench.now_ms, await bench.claim()
        attempts = [bench.attempt(claim) for claim in claims]
        bench.clock.advance(45)
        await bench.store.settle(
            [
                Settlement(claim, DeliveryState.SENT, "sent", attempt, healthy=True)
                for claim, attempt in zip(claims, attempts, strict=True)
            ]
        )
        slot_age = bench.now_ms - (began_ms - began_ms % SLOT_MS)
        assert set(await self._counts(bench, slot_age)) == {"ep_a", "ep_b"}
        assert await self._counts(bench, slot_age - 1) == {}
        found = await bench.store.seen(slot_age - 1, {"ep_b": slot_age})
        assert [each.endpoint_id for each in found] == ["ep_b"]
        found = await bench.store.seen_of({"ep_a": slot_age, "ep_b": slot_age - 1})
        assert found == [Seen("ep_a", 1, Counts(1, 0, 0, 1, 12))]

    async def test_a_clock_ahead_counts_now(self, bench: Bench) -> None:
        """An attempt of a worker whose clock is ahead is not counted in the future."""
        await self._two_lanes(bench)
        await bench.send()
        claim, _ = await bench.claim()
        bench.clock.advance(3600)
        attempt = bench.attempt(claim)
        bench.clock.advance(-3600)
        await bench.store.settle([Settlement(claim, DeliveryState.SENT, "sent", attempt, healthy=True)])
        assert set(await self._counts(bench, SLOT_MS)) == {claim.endpoint_id}

    async def test_which_breaker_guards(self, bench: Bench) -> None:
        """An endpoint's policy is its own or its application's, and a shared breaker is named by its key."""
        await bench.application(policy={"window": 300})
        await bench.endpoint("ep_a")
        await bench.endpoint("ep_b", breaker_key="shared", policy={"window": 60})
        await bench.application("app_2")
        await bench.endpoint("ep_c", "app_2")
        found = await bench.store.guarded(["ep_a", "ep_b", "ep_c", "ep_none"])
        assert sorted(found) == [
            Guarded("ep_a", 1, "app_1/ep_a", {"window": 300}),
            Guarded("ep_b", 1, "app_1/shared", {"window": 60}),
            Guarded("ep_c", 1, "app_2/ep_c", None),
        ]
        await bench.store.delete_endpoint("ep_a")
        assert await bench.store.guarded(["ep_a"]) == []

    async def test_old_slots_are_forgotten(self, bench: Bench) -> None:
        """Slots are pruned by their age; a leader that was replaced prunes nothing."""
        await self._two_lanes(bench)
        await bench.send()
        await bench.settle(*await bench.claim())
        (old,) = await bench.store.hold_duties([Duty.SAMPLING], "paused", 1)
        bench.clock.advance(60)
        (new,) = await bench.store.hold_duties([Duty.SAMPLING], "next", 1_000)
        assert await bench.store.prune_tallies(30_000, tenure=old) == 0
        assert await bench.store.prune_tallies(80_000, tenure=new) == 0
        assert await bench.store.prune_tallies(30_000, tenure=new) == 2
        assert await self._counts(bench) == {}

    async def _two_lanes(self, bench: Bench) -> None:
        for name in ("ep_a", "ep_b"):
            await bench.lane(name, cap=10)
        bench.clock.advance(60)
        await bench.store.prune_tallies(0)

    async def _counts(self, bench: Bench, back_ms: int = _HOUR_MS) -> dict[str, Counts]:
        return {each.endpoint_id: each.counts for each in await bench.store.seen(back_ms, {})}
