"""What is kept of breakers' standings, and what was last seen of their store."""

from __future__ import annotations

from dataclasses import replace

from hookfuse.core.duty import Duty
from hookfuse.core.endpoint import Stop
from hookfuse.core.standing import Memory, Standing
from hookfuse.core.state import Override, State, Transition
from hookfuse.core.tally import Guarded
from hookfuse.testing.delivery.bench import Bench, OnBench

_FORCED = Standing("app_1/ep_1", Override.OPEN, 1_000, False, "maintenance é", 7)
_DISABLED = Standing("app_1/ep_2", Override.NONE, None, True, "rate", 8)


def _disabled(bench: Bench, key: str) -> Transition:
    return Transition(key, State.CLOSED, State.DISABLED, bench.now_ms, bench.clock.now(), "streak")


class StandingFast(OnBench):
    async def test_standings_are_kept(self, bench: Bench) -> None:
        """A standing is written, replaced by a newer one and never by an older, and goes unless it has changed."""
        await bench.store.keep_standings([_FORCED, _DISABLED])
        assert sorted(await bench.store.standings()) == [_FORCED, _DISABLED]
        newer = _FORCED._replace(override=Override.CLOSED, until_ms=None, generation=9)
        await bench.store.keep_standings([newer])
        await bench.store.keep_standings([_FORCED], [_FORCED])
        assert sorted(await bench.store.standings()) == [newer, _DISABLED]
        await bench.store.keep_standings([], [newer, _DISABLED])
        assert await bench.store.standings() == []

    async def test_a_replaced_leader_keeps_nothing(self, bench: Bench) -> None:
        """What carries an old fence writes no standing, forgets none, and changes no memory of the store."""
        await bench.store.keep_standings([_FORCED])
        (old,) = await bench.store.hold_duties([Duty.SAMPLING], "paused", 1)
        bench.clock.advance(1)
        (new,) = await bench.store.hold_duties([Duty.SAMPLING], "next", 1_000)
        await bench.store.keep_standings([_DISABLED], [_FORCED], tenure=old)
        await bench.store.keep_breaker_memory(Memory("old", 5), tenure=old)
        assert await bench.store.standings() == [_FORCED]
        assert await bench.store.breaker_memory() == Memory()
        await bench.store.keep_standings([_DISABLED], [_FORCED], tenure=new)
        await bench.store.keep_breaker_memory(Memory("new", 5), tenure=new)
        assert await bench.store.standings() == [_DISABLED]
        assert await bench.store.breaker_memory() == Memory("new", 5)

    async def test_a_generation_never_goes_back(self, bench: Bench) -> None:
        """The newest generation stays the newest, whichever life of the data is seen."""
        await bench.store.keep_breaker_memory(Memory("first", 9))
        await bench.store.keep_breaker_memory(Memory("second", 3))
        assert await bench.store.breaker_memory() == Memory("second", 9)

    async def test_who_is_behind_a_key(self, bench: Bench) -> None:
        """A key leads to the endpoints that share it, of its own application only."""
        await bench.application()
        await bench.application("app_2")
        await bench.endpoint("ep_a", breaker_key="shared")
        await bench.endpoint("ep_b", breaker_key="shared", policy={"window": 9})
        await bench.endpoint("ep_c", "app_2", breaker_key="shared")
        await bench.endpoint("ep_d")
        found = await bench.store.guarded_by("app_1/shared")
        assert sorted(each.endpoint_id for each in found) == ["ep_a", "ep_b"]
        assert await bench.store.guarded_by("app_1/ep_d") == [Guarded("ep_d", 1, "app_1/ep_d", None)]
        assert await bench.store.guarded_by("app_1/ep_a") == []

    async def test_breakers_that_guard_nobody(self, bench: Bench) -> None:
        """Keys of deleted endpoints, of deleted applications, and of endpoints that have another one now are found."""
        await bench.application()
        await bench.application("app_2")
        await bench.endpoint("ep_a")
        await bench.endpoint("ep_b")
        await bench.endpoint("ep_c", breaker_key="shared")
        await bench.endpoint("ep_d", breaker_key="shared")
        await bench.endpoint("ep_e", "app_2")
        keys = ["app_1/ep_a", "app_1/ep_b", "app_1/shared", "app_2/ep_e", "app_2/shared", "app_9/ep_a", "elsewhere"]
        assert await bench.store.unguarded(keys) == ["app_2/shared"]
        await bench.store.delete_endpoint("ep_a")
        await bench.store.delete_endpoint("ep_c")
        await bench.store.delete_application("app_2")
        await bench.store.change_endpoint("ep_b", {"breaker_key": "mine"})
        found = ["app_1/ep_a", "app_1/ep_b", "app_2/ep_e", "app_2/shared"]
        assert sorted(await bench.store.unguarded([*keys, "app_1/mine"])) == found
        await bench.store.delete_endpoint("ep_d")
        assert await bench.store.unguarded(["app_1/shared"]) == ["app_1/shared"]

    async def test_enabled_behind_a_disabled_breaker(self, bench: Bench) -> None:
        """Endpoints are found that nobody stopped when their breaker was disabled, by pages and until they are."""
        await bench.application()
        await bench.application("app_2")
        await bench.endpoint("ep_a")
        for name in ("ep_b", "ep_c"):
            await bench.endpoint(name, breaker_key="shared")
        await bench.endpoint("ep_d", "app_2", breaker_key="shared")
        await bench.endpoint("ep_e")
        await bench.store.keep_transitions([_disabled(bench, f"app_1/{name}") for name in ("ep_a", "shared", "ep_b")])
        found = await bench.store.unstopped("", 10)
        assert found == [("ep_a", "app_1/ep_a"), ("ep_b", "app_1/shared"), ("ep_c", "app_1/shared")]
        assert await bench.store.unstopped("ep_a", 1) == found[1:2]
        await bench.store.stop_endpoint("ep_a", Stop.PAUSED)
        await bench.store.stop_endpoint("ep_b", Stop.DISABLED, "breaker: streak")
        await bench.store.delete_endpoint("ep_c")
        assert await bench.store.unstopped("", 10) == found[:1]
        enabled = replace(_disabled(bench, "app_1/ep_a"), after=State.HALF_OPEN, generation=bench.now_ms + 1)
        await bench.store.keep_transitions([enabled])
        assert await bench.store.unstopped("", 10) == []

    async def test_a_replaced_leader_stops_nothing(self, bench: Bench) -> None:
        """What carries an old fence stops no endpoint."""
        await bench.lane()
        (old,) = await bench.store.hold_duties([Duty.NOTICES], "paused", 1)
        bench.clock.advance(1)
        (new,) = await bench.store.hold_duties([Duty.NOTICES], "next", 1_000)
        assert await bench.store.stop_endpoint("ep_1", Stop.DISABLED, "late", tenure=old) is None
        assert (await bench.store.endpoints(["ep_1"]))[0].enabled
        stopped = await bench.store.stop_endpoint("ep_1", Stop.DISABLED, "in time", tenure=new)
        assert stopped is not None
        assert stopped.disabled_reason == "in time"

    async def test_policies_are_found_once(self, bench: Bench) -> None:
        """Every stored policy is told once: endpoints', applications', and the default."""
        await bench.application(policy={"window": 1})
        for name in ("ep_a", "ep_b"):
            await bench.endpoint(name, policy={"window": 2})
        assert sorted(each["window"] for each in await bench.store.stored_policies()) == [1, 2]
        await bench.store.change_default_policy({"window": 3})
        assert sorted(each["window"] for each in await bench.store.stored_policies()) == [1, 2, 3]
        await bench.store.change_default_policy(None)
        await bench.store.delete_endpoint("ep_a")
        assert sorted(each["window"] for each in await bench.store.stored_policies()) == [1, 2]
