"""What operators' tools rely on: how much waits, seals that can be replaced, migrations that are known."""

from __future__ import annotations

from hookfuse.core.delivery import Deferral
from hookfuse.core.endpoint import Stop
from hookfuse.core.upkeep import Sealed
from hookfuse.testing.delivery.bench import Bench, OnBench


class Upkeeping(OnBench):
    async def test_backlog(self, bench: Bench) -> None:
        """What waits is counted, with what is held behind stopped and blocked lanes, in flight, and overdue."""
        nothing = await bench.store.backlog()
        assert (nothing.lag, nothing.age) == (0, 0)
        await bench.lane("ep_a", cap=2)
        await bench.lane("ep_b", cap=2)
        for _ in range(3):
            await bench.send()
        bench.clock.advance(7)
        seen = await bench.store.backlog()
        assert (seen.waiting, seen.held, seen.in_flight) == (6, 0, 0)
        assert seen.lag == 7
        claims = await bench.claim()
        assert len(claims) == 4
        blocked = next(claim for claim in claims if claim.endpoint_id == "ep_a")
        await bench.store.defer([Deferral(blocked, "breaker_open", wait_ms=30_000)])
        seen = await bench.store.backlog()
        assert (seen.waiting, seen.held, seen.in_flight) == (3, 2, 3)
        await bench.store.stop_endpoint("ep_b", Stop.PAUSED)
        seen = await bench.store.backlog()
        assert (seen.waiting, seen.held, seen.lag) == (3, 3, 0)
        assert seen.age == 7

    async def test_seals_are_replaced(self, bench: Bench) -> None:
        """Every endpoint's seals are found page by page, and replaced unless someone changed them meanwhile."""
        await bench.application()
        for name in ("ep_a", "ep_b", "ep_c"):
            await bench.endpoint(name, secret=f"old {name}".encode())
        first = await bench.store.sealed_page("", 2)
        assert [each.endpoint_id for each in first] == ["ep_a", "ep_b"]
        assert await bench.store.sealed_page("ep_b", 2) == [Sealed("ep_c", b"old ep_c", b"")]
        assert await bench.store.reseal(first[0], Sealed("ep_a", b"new", b""))
        await bench.store.change_endpoint("ep_b", {"secret": b"rotated"})
        assert not await bench.store.reseal(first[1], Sealed("ep_b", b"new", b""))
        found = {each.id: each for each in await bench.store.endpoints(["ep_a", "ep_b"])}
        assert found["ep_a"].secret == b"new"
        assert found["ep_b"].secret == b"rotated"

    async def test_migrations_are_known(self, bench: Bench) -> None:
        """The store says which migrations it has, in their order."""
        applied = await bench.store.applied_migrations()
        assert applied[0].name == "0001_delivery"
        assert [each.number for each in applied] == sorted(each.number for each in applied)
