"""What an operator can tell a breaker."""

from __future__ import annotations

import pytest

from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Streak
from hookfuse.core.state import Override, State
from hookfuse.errors import InvalidInput
from hookfuse.testing.contract.world import OnBothFaces, World

TWO = Policy(trip=Streak(2), cool_off=30)


class Obeying(OnBothFaces):
    def test_forced_open(self, world: World) -> None:
        """Forced open, every call is refused until someone unforces it, and then a probe goes first."""
        breakers = world.breakers(TWO)
        transition = breakers.force_open("ep", reason="maintenance", actor="ana")
        assert (transition.override, transition.reason, transition.actor) == (Override.OPEN, "maintenance", "ana")
        world.clock.advance(86_400)
        refused = world.another(TWO).admit("ep")
        assert (refused.allowed, refused.reason, refused.retry_after) == (False, "forced_open", None)
        assert refused.why == "maintenance"
        assert breakers.inspect("ep").reason == "maintenance"
        assert breakers.unforce("ep").after is State.HALF_OPEN
        assert breakers.inspect("ep").override is Override.NONE
        assert breakers.admit("ep").probe

    def test_forced_closed(self, world: World) -> None:
        """Forced closed, every call passes whatever its outcome; unforced, it is closed with clean counts."""
        breakers = world.breakers(TWO)
        world.fail(breakers, times=2)
        breakers.force_closed("ep")
        assert world.fail(breakers, times=10) is None
        seen = breakers.inspect("ep")
        assert (seen.override, seen.totals.failed) == (Override.CLOSED, 12)
        assert breakers.unforce("ep").after is State.CLOSED
        seen = breakers.inspect("ep")
        assert (seen.state, seen.streak, seen.counts.calls) == (State.CLOSED, 0, 0)

    def test_probe_now(self, world: World) -> None:
        """Told to probe, an open breaker lets one caller through at once, and nothing that it counted is forgotten."""
        breakers = world.breakers(TWO)
        assert breakers.probe("ep") is None
        world.fail(breakers, times=2)
        assert not breakers.admit("ep").allowed
        made = breakers.probe("ep", reason="mended", actor="ana")
        assert (made.before, made.after, made.reason, made.actor) == (State.OPEN, State.HALF_OPEN, "mended", "ana")
        assert breakers.probe("ep") is None
        seen = breakers.inspect("ep")
        assert (seen.streak, seen.counts.failed, seen.trips) == (2, 2, 1)
        probe = world.another(TWO).admit("ep")
        assert probe.probe
        assert not breakers.admit("ep").allowed

    def test_probe_bends_to_those_above_it(self, world: World) -> None:
        """An override and a disabled state stay as they are when a probe is asked for."""
        breakers = world.breakers(TWO)
        world.fail(breakers, times=2)
        breakers.force_open("ep")
        assert breakers.probe("ep") is None
        assert breakers.admit("ep").reason == "forced_open"
        breakers.reset("ep")
        breakers.disable("ep")
        assert breakers.probe("ep") is None
        assert breakers.inspect("ep").state is State.DISABLED

    def test_override_beats_disabled(self, world: World) -> None:
        """The override decides even over a disabled state."""
        breakers = world.breakers(TWO)
        breakers.disable("ep")
        breakers.force_closed("ep")
        assert breakers.admit("ep").allowed
        breakers.force_open("ep")
        assert breakers.admit("ep").reason == "forced_open"

    def test_until(self, world: World) -> None:
        """An override with an end lasts exactly so long, and its end is announced once someone looks."""
        breakers = world.breakers(TWO)
        breakers.force_open("ep", until=world.clock.now() + 60)
        world.clock.advance(59.999)
        assert breakers.admit("ep").retry_after == 0.001
        world.clock.advance(0.001)
        assert breakers.inspect("ep").override is Override.NONE
        assert breakers.admit("ep").probe
        assert [each.reason for each in world.seen] == ["force_open", "override_ended"]

    def test_until_in_the_past(self, world: World) -> None:
        """An override that should have ended by the store's clock is refused and changes nothing."""
        breakers = world.breakers(TWO)
        for until in (world.clock.now(), world.clock.now() - 60):
            with pytest.raises(InvalidInput, match="until must be in the future"):
                breakers.force_open("ep", until=until)
        assert breakers.inspect("ep").generation == 0
        assert breakers.admit("ep").allowed
        assert world.seen == []

    def test_outcomes_under_an_override_are_older_afterwards(self, world: World) -> None:
        """A call that began under an override says nothing about the breaker that comes after it."""
        breakers = world.breakers(TWO)
        breakers.force_closed("ep")
        late = [breakers.admit("ep") for _ in range(3)]
        breakers.unforce("ep")
        for admission in late:
            assert breakers.record(admission, Outcome.FAILURE) is None
        assert breakers.inspect("ep").streak == 0

    def test_forcing_twice(self, world: World) -> None:
        """The same order twice is one transition; another reason is another one."""
        breakers = world.breakers(TWO)
        assert breakers.force_open("ep", reason="a") is not None
        assert breakers.force_open("ep", reason="a") is None
        assert breakers.force_open("ep", reason="b") is not None
        assert len(world.seen) == 2

    def test_disable_and_enable(self, world: World) -> None:
        """Disabled by an operator it refuses; enabled it starts clean in half_open, with its grace."""
        breakers = world.breakers(Policy(trip=Streak(2), cool_off=30, disable_after=3))
        world.fail(breakers, times=2)
        transition = breakers.disable("ep", reason="410 Gone")
        assert (transition.after, transition.reason) == (State.DISABLED, "410 Gone")
        assert breakers.disable("ep") is None
        assert breakers.admit("ep").why == "410 Gone"
        assert breakers.enable("ep").after is State.HALF_OPEN
        assert breakers.enable("ep") is None
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        seen = breakers.inspect("ep")
        assert (seen.state, seen.trips) == (State.OPEN, 1), "old trips do not disable it again at once"

    def test_reset(self, world: World) -> None:
        """Reset closes it and forgets what was held against it, the override too."""
        breakers = world.breakers(TWO)
        world.fail(breakers, times=2, error="503")
        breakers.force_open("ep")
        assert breakers.reset("ep").after is State.CLOSED
        seen = breakers.inspect("ep")
        assert (seen.state, seen.override, seen.trips, seen.streak, seen.failures) == (
            State.CLOSED,
            Override.NONE,
            0,
            0,
            (),
        )
        assert breakers.admit("ep").allowed

    def test_orders_that_change_nothing(self, world: World) -> None:
        """Unforce, enable and reset of a key that needs none write and announce nothing."""
        breakers = world.breakers(TWO)
        assert breakers.unforce("ep") is None
        assert breakers.enable("ep") is None
        assert breakers.reset("ep") is None
        assert breakers.inspect("ep").generation == 0
        assert world.seen == []

    def test_unhealthy(self, world: World) -> None:
        """Everything that is not plainly closed is listed, and leaves the list when it is."""
        breakers = world.breakers(Policy(trip=Streak(2), cool_off=30, ramp=10))
        world.succeed(breakers, "well")
        world.fail(breakers, "open", times=2)
        breakers.force_closed("forced")
        breakers.disable("off")
        breakers.record(breakers.admit("held"), Outcome.throttled(retry_after=20))
        assert {each.key for each in breakers.unhealthy()} == {"open", "forced", "off", "held"}
        world.clock.advance(30)
        breakers.record(breakers.admit("open"), Outcome.OK)
        assert {each.key for each in breakers.unhealthy()} == {"open", "forced", "off"}, "it is in its ramp"
        world.clock.advance(10)
        breakers.unforce("forced")
        world.clock.advance(10)
        assert {each.key for each in breakers.unhealthy()} == {"off"}
