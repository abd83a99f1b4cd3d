"""What duties promise: one holder at a time, and no write of a holder that was replaced."""

from __future__ import annotations

import asyncio

from hookfuse.core.duty import Duty, Tenure
from hookfuse.testing.delivery.bench import LEASE, Bench, OnBench

_DUTY_MS = 6_000


class Leading(OnBench):
    async def test_a_duty_has_one_holder(self, bench: Bench) -> None:
        """Of many that ask at once one gets the duty, and the others get it only when its lease has ended."""
        asked = [_take(bench, f"p{number}") for number in range(5)]
        (first,) = [tenure for tenure in await asyncio.gather(*asked) if tenure is not None]
        assert await bench.store.duties() == [first]
        assert (first.fence, first.since_ms, first.until_ms) == (1, bench.now_ms, bench.now_ms + _DUTY_MS)
        bench.clock.advance(5.999)
        assert await _take(bench, "late") is None
        bench.clock.advance(0.001)
        second = await _take(bench, "late")
        assert second is not None
        assert (second.holder, second.fence, second.since_ms) == ("late", 2, bench.now_ms)

    async def test_a_duty_is_renewed(self, bench: Bench) -> None:
        """A holder that renews in time keeps its fence and says since when; one that is late begins anew."""
        first = await _take(bench, "a")
        assert first is not None
        bench.clock.advance(5)
        renewed = await _take(bench, "a")
        assert renewed is not None
        assert (renewed.fence, renewed.since_ms) == (first.fence, first.since_ms)
        assert renewed.until_ms == bench.now_ms + _DUTY_MS
        bench.clock.advance(6)
        assert await bench.store.duties() == []
        again = await _take(bench, "a")
        assert again is not None
        assert (again.fence, again.since_ms) == (first.fence + 1, bench.now_ms)

    async def test_a_duty_is_given_up(self, bench: Bench) -> None:
        """What a holder gives up can be taken at once, with a new fence; what others hold stays theirs."""
        await bench.store.hold_duties([Duty.SAMPLING, Duty.RESCUE], "a", _DUTY_MS)
        await bench.store.hold_duties([Duty.RETENTION], "b", _DUTY_MS)
        await bench.store.give_up_duties("a")
        assert [each.duty for each in await bench.store.duties()] == [Duty.RETENTION]
        taken = await bench.store.hold_duties(list(Duty), "c", _DUTY_MS)
        assert {each.duty: each.fence for each in taken} == {Duty.SAMPLING: 2, Duty.RESCUE: 2, Duty.NOTICES: 1}

    async def test_an_old_fence_writes_nothing(self, bench: Bench) -> None:
        """A leader that was replaced rescues nothing and forgets nothing; its successor does."""
        await bench.lane()
        id_ = await bench.send()
        await bench.claim()
        old = await _take(bench, "paused")
        bench.clock.advance(LEASE)
        new = await _take(bench, "next")
        assert old is not None
        assert new is not None
        assert (await bench.store.rescue(deaths=3, tenure=old)).returned == 0
        assert (await bench.store.rescue(deaths=3, tenure=new)).returned == 1
        (claim,) = await bench.claim()
        await bench.settle(claim)
        bench.clock.advance(1)
        cut = bench.now_ms
        assert await bench.store.prune(older_than_ms=cut, tenure=old) == 0
        assert await bench.store.message("app_1", id_) is not None
        while await bench.store.prune(older_than_ms=cut, tenure=new):
            pass
        assert await bench.store.message("app_1", id_) is None


async def _take(bench: Bench, holder: str) -> Tenure | None:
    held = await bench.store.hold_duties([Duty.RESCUE], holder, _DUTY_MS)
    return held[0] if held else None
