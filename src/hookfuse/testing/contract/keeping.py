"""What a store keeps, for how long, and whom it tells."""

from __future__ import annotations

import pytest

from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Count, Streak
from hookfuse.core.state import State
from hookfuse.errors import AlreadySettled, InvalidInput
from hookfuse.testing.contract.world import OnBothFaces, World

DAY = 86_400


class Keeping(OnBothFaces):
    def test_generations_only_grow(self, world: World) -> None:
        """Every transition of a key has a higher generation than all before it, also after a reset."""
        breakers = world.breakers(Policy(trip=Streak(1), cool_off=30))
        for key in ("a", "b", "a"):
            world.fail(breakers, key)
            breakers.reset(key)
        generations = [each.generation for each in world.seen if each.key == "a"]
        assert len(generations) == 4
        assert generations == sorted(set(generations))
        assert breakers.admit("a").generation >= breakers.inspect("a").generation

    def test_announced_once_to_each(self, world: World) -> None:
        """Each observer hears of each transition once, in order; one that fails does not disturb the others."""
        breakers = world.breakers(Policy(trip=Streak(1), cool_off=30))
        other: list[State] = []

        def broken(_: object) -> None:
            raise RuntimeError("this observer is broken")

        breakers.subscribe(broken)
        subscription = breakers.subscribe(lambda transition: other.append(transition.after))
        world.fail(breakers)
        world.clock.advance(30)
        breakers.record(breakers.admit("ep"), Outcome.OK)
        assert [each.after for each in world.seen] == [State.OPEN, State.HALF_OPEN, State.CLOSED]
        assert other == [State.OPEN, State.HALF_OPEN, State.CLOSED]
        subscription.close()
        world.fail(breakers)
        assert len(other) == 3
        assert len(world.seen) == 4

    def test_settled_once(self, world: World) -> None:
        """An admission is settled once; a second time raises and changes nothing."""
        breakers = world.breakers(Policy(trip=Streak(5)))
        admission = breakers.admit("ep")
        breakers.record(admission, Outcome.FAILURE)
        with pytest.raises(AlreadySettled, match="already recorded or released"):
            breakers.record(admission, Outcome.FAILURE)
        with pytest.raises(AlreadySettled):
            breakers.release(admission)
        assert breakers.inspect("ep").streak == 1

    def test_refused_has_no_outcome(self, world: World) -> None:
        """A refused admission has nothing to record, and releasing it is harmless."""
        breakers = world.breakers(Policy(trip=Streak(1)))
        world.fail(breakers)
        refused = breakers.admit("ep")
        breakers.release(refused)
        with pytest.raises(InvalidInput, match="was refused"):
            breakers.record(refused, Outcome.OK)

    def test_policy_travels_with_the_call(self, world: World) -> None:
        """A changed policy takes effect at the next call; a running cool-off is not recomputed."""
        long = world.breakers(Policy(trip=Streak(2), cool_off=100))
        short = world.another(Policy(trip=Streak(1), cool_off=10))
        world.fail(long, "a")
        assert world.fail(short, "a") is not None, "the second failure is enough for either policy"
        world.fail(long, "b", times=2)
        assert short.admit("b").retry_after == 100.0

    def test_changed_bucket_width_empties_the_window(self, world: World) -> None:
        """A changed window starts counting anew, because its buckets have another width."""
        minute = world.breakers(Policy(trip=Count(100), window=60))
        hour = world.another(Policy(trip=Count(100), window=3600))
        world.fail(minute, times=5)
        assert hour.inspect("ep").counts.failed == 5, "looking at it changes nothing"
        world.fail(hour)
        seen = hour.inspect("ep")
        assert (seen.counts.failed, seen.streak, seen.totals.failed) == (1, 6, 6)

    def test_quiet_keys_disappear(self, world: World) -> None:
        """A healthy key is forgotten a window and a bucket after its last call."""
        breakers = world.breakers(Policy(trip=Count(100), window=60))
        world.succeed(breakers)
        world.clock.advance(60)
        assert breakers.inspect("ep").totals.ok == 1
        world.clock.advance(6.001)
        assert breakers.inspect("ep").totals.ok == 0

    def test_trips_are_remembered_longer(self, world: World) -> None:
        """A row of trips is remembered for twice the longest of window and cool-off."""
        policy = Policy(trip=Streak(1), window=60, cool_off=30, cool_off_max=300)
        breakers = world.breakers(policy)
        world.fail(breakers)
        world.clock.advance(30)
        breakers.record(breakers.admit("ep"), Outcome.OK)
        world.clock.advance(599)
        assert breakers.inspect("ep").trips == 1
        world.clock.advance(2)
        assert breakers.inspect("ep").trips == 0

    def test_sick_keys_are_kept(self, world: World) -> None:
        """A streak and an open state outlive the window until forget_after."""
        policy = Policy(trip=Streak(2), window=60, cool_off=30, forget_after=10 * DAY)
        breakers = world.breakers(policy)
        world.fail(breakers, "streak")
        world.fail(breakers, "open", times=2)
        world.clock.advance(10 * DAY - 1)
        assert breakers.inspect("streak").streak == 1
        assert breakers.inspect("open").state is State.OPEN
        world.clock.advance(1.001)
        assert breakers.inspect("streak").streak == 0
        assert breakers.inspect("open").state is State.CLOSED

    def test_orders_are_never_forgotten(self, world: World) -> None:
        """Overridden and disabled keys are kept for ever."""
        breakers = world.breakers(Policy(trip=Streak(2), window=60))
        breakers.force_open("forced")
        breakers.disable("off")
        world.clock.advance(3000 * DAY)
        assert breakers.admit("forced").reason == "forced_open"
        assert breakers.admit("off").reason == "disabled"

    def test_large_numbers_survive(self, world: World) -> None:
        """Large counts come back as they went in, to the last digit."""
        breakers = world.breakers(Policy(trip=Streak(1_000_000)))
        world.fail(breakers, latency=86_400.0, times=3)
        assert breakers.inspect("ep").counts.latency_ms == 259_200_000
        assert breakers.force_open("ep", until=32_503_680_000.123) is not None
        assert breakers.inspect("ep").override_until == 32_503_680_000.123

    def test_any_text_is_a_key(self, world: World) -> None:
        """Keys may hold any text, and none of it is mistaken for something else."""
        breakers = world.breakers(Policy(trip=Streak(1)))
        keys = ["a b", "{a}", "}{", "a:b", "\n", "ключ", "🔌", "a\x00b", "*", "x" * 512]
        for key in keys:
            world.fail(breakers, key, error="\x00\ud800 '\"")
        assert {each.key for each in breakers.unhealthy()} == set(keys)
