"""How an open breaker finds out whether its endpoint is back."""

from __future__ import annotations

from typing import Any

from hookfuse.core.admission import Admission
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Count, Slow, Streak
from hookfuse.core.state import State
from hookfuse.core.window import Counts
from hookfuse.testing.contract.world import OnBothFaces, World

QUICK = Policy(trip=Streak(2), cool_off=30, probe_lease=10, window=60)


def opened(world: World, policy: Policy = QUICK) -> Any:
    breakers = world.breakers(policy)
    world.fail(breakers, times=2)
    return breakers


def probing(world: World, policy: Policy = QUICK) -> tuple[Any, Admission]:
    breakers = opened(world, policy)
    world.clock.advance(30)
    return breakers, breakers.admit("ep")


class Probing(OnBothFaces):
    def test_refused_with_the_time_to_come_back(self, world: World) -> None:
        """While open, every call is refused and told when to come back."""
        breakers = opened(world)
        world.clock.advance(10)
        refused = breakers.admit("ep")
        assert not refused.allowed
        assert (refused.reason, refused.state, refused.retry_after) == ("open", State.OPEN, 20.0)
        assert refused.retry_at == world.clock.now() + 20
        assert refused.why == "failures in a row: 2, limit 2"

    def test_one_probe_at_the_edge(self, world: World) -> None:
        """At the end of the cool-off, not before, exactly one caller gets the probe, whoever asks."""
        breakers = opened(world)
        world.clock.advance(29.999)
        assert not breakers.admit("ep").allowed
        assert breakers.inspect("ep").state is State.OPEN
        world.clock.advance(0.001)
        asked = [world.another(QUICK).admit("ep") for _ in range(5)]
        assert [each.probe for each in asked] == [True, False, False, False, False]
        assert [each.reason for each in asked[1:]] == ["probing"] * 4
        assert asked[1].retry_after == 10.0
        assert breakers.inspect("ep").probes_in_flight == 1

    def test_never_by_the_clock_alone(self, world: World) -> None:
        """An open breaker stays open, however late it is, until someone asks."""
        breakers = opened(world)
        world.clock.advance(3600)
        assert breakers.inspect("ep").state is State.OPEN
        assert [each.after for each in world.seen] == [State.OPEN]

    def test_success_closes_clean(self, world: World) -> None:
        """A successful probe closes the breaker and clears streak and window."""
        breakers, probe = probing(world)
        transition = breakers.record(probe, Outcome.OK)
        assert transition is not None
        assert (transition.before, transition.after) == (State.HALF_OPEN, State.CLOSED)
        seen = breakers.inspect("ep")
        assert (seen.state, seen.streak, seen.counts.calls, seen.probe_at) == (State.CLOSED, 0, 0, None)
        assert breakers.admit("ep").allowed

    def test_failure_opens_again(self, world: World) -> None:
        """A failed probe opens the breaker for another cool-off."""
        breakers, probe = probing(world)
        transition = breakers.record(probe, Outcome.FAILURE)
        assert transition is not None
        assert (transition.before, transition.after) == (State.HALF_OPEN, State.OPEN)
        assert breakers.admit("ep").retry_after == 30.0
        assert breakers.inspect("ep").trips == 2

    def test_several_probes(self, world: World) -> None:
        """With probes=3 and close_after=3, three may be in flight and all must succeed."""
        policy = Policy(trip=Streak(2), cool_off=30, probes=3, close_after=3)
        breakers, first = probing(world, policy)
        probes = [first, breakers.admit("ep"), breakers.admit("ep")]
        assert all(probe.probe for probe in probes)
        assert not breakers.admit("ep").allowed
        assert breakers.record(probes[0], Outcome.OK) is None
        assert breakers.record(probes[1], Outcome.OK) is None
        assert breakers.inspect("ep").probe_successes == 2
        assert breakers.record(probes[2], Outcome.OK).after is State.CLOSED

    def test_one_failed_probe_of_several(self, world: World) -> None:
        """One failed probe opens it; the others' results are then older and change nothing."""
        policy = Policy(trip=Streak(2), cool_off=30, probes=2, close_after=1)
        breakers, first = probing(world, policy)
        second = breakers.admit("ep")
        breakers.record(first, Outcome.FAILURE)
        before = breakers.inspect("ep")
        world.clock.advance(5)
        assert breakers.record(second, Outcome.OK) is None
        after = breakers.inspect("ep")
        assert (after.state, after.probe_at, after.generation) == (State.OPEN, before.probe_at, before.generation)

    def test_released_probe_is_free_at_once(self, world: World) -> None:
        """A probe that is given back goes to the next caller at once."""
        breakers, probe = probing(world)
        breakers.release(probe)
        assert breakers.inspect("ep").state is State.HALF_OPEN
        assert breakers.admit("ep").probe

    def test_ignored_probe_is_given_back(self, world: World) -> None:
        """A probe that fails by our own fault neither closes nor opens: it is given back."""
        breakers, probe = probing(world)
        assert breakers.record(probe, Outcome.IGNORED) is None
        assert breakers.inspect("ep").state is State.HALF_OPEN
        assert breakers.admit("ep").probe

    def test_lost_probe(self, world: World) -> None:
        """A prober that died loses its lease at the deadline, not before, and that is no failure."""
        breakers, lost = probing(world)
        world.clock.advance(9.999)
        assert not breakers.admit("ep").allowed
        world.clock.advance(0.001)
        assert breakers.admit("ep").probe
        assert breakers.inspect("ep").trips == 1
        assert breakers.record(lost, Outcome.FAILURE) is None, "a result after the deadline is older"
        assert breakers.inspect("ep").state is State.HALF_OPEN
        assert breakers.inspect("ep").totals.failed == 3

    def test_throttled_probe(self, world: World) -> None:
        """A throttled probe is given back and the next one is due when the endpoint said."""
        breakers, probe = probing(world)
        breakers.record(probe, Outcome.throttled(retry_after=45))
        refused = breakers.admit("ep")
        assert (refused.allowed, refused.reason, refused.retry_after) == (False, "probing", 45.0)
        assert breakers.inspect("ep").state is State.HALF_OPEN
        world.clock.advance(45)
        assert breakers.admit("ep").probe

    def test_throttled_probes(self, world: World) -> None:
        """Of several throttled probes the one that was told to wait the longest says when the next is due."""
        breakers = world.breakers(Policy(trip=Streak(1), cool_off=30, probes=2))
        world.fail(breakers)
        world.clock.advance(30)
        long, short = breakers.admit("ep"), breakers.admit("ep")
        breakers.record(long, Outcome.throttled(retry_after=45))
        breakers.record(short, Outcome.throttled(retry_after=5))
        refused = breakers.admit("ep")
        assert (refused.reason, refused.retry_after) == ("probing", 45.0)

    def test_slow_probe(self, world: World) -> None:
        """Where slowness opened it, a success as slow as that does not close it."""
        breakers = world.breakers(Policy(trip=Slow(0.5, over=2, min_calls=2), cool_off=30))
        world.succeed(breakers, times=2, latency=3)
        world.clock.advance(30)
        assert breakers.record(breakers.admit("ep"), Outcome.OK, latency=2).after is State.OPEN
        world.clock.advance(30)
        assert breakers.record(breakers.admit("ep"), Outcome.OK, latency=1.9).after is State.CLOSED

    def test_late_failure_extends_nothing(self, world: World) -> None:
        """A failure of a call from before the trip arrives while open: counted in the totals, nothing else."""
        breakers = world.breakers(QUICK)
        late = breakers.admit("ep")
        world.fail(breakers, times=2)
        before = breakers.inspect("ep")
        world.clock.advance(20)
        assert breakers.record(late, Outcome.FAILURE) is None
        after = breakers.inspect("ep")
        assert (after.opened_at, after.probe_at, after.trips, after.streak) == (
            before.opened_at,
            before.probe_at,
            before.trips,
            before.streak,
        )
        assert after.totals.failed == before.totals.failed + 1

    def test_late_success_does_not_close(self, world: World) -> None:
        """A success of a call from before the trip arrives in half_open: it does not close."""
        breakers = world.breakers(QUICK)
        late = breakers.admit("ep")
        world.fail(breakers, times=2)
        world.clock.advance(30)
        probe = breakers.admit("ep")
        assert breakers.record(late, Outcome.OK) is None
        assert breakers.inspect("ep").state is State.HALF_OPEN
        assert breakers.record(probe, Outcome.OK).after is State.CLOSED

    def test_late_failure_after_closing(self, world: World) -> None:
        """A failure from before the trip that arrives after closing does not count against the new start."""
        breakers = world.breakers(QUICK)
        late = [breakers.admit("ep") for _ in range(3)]
        world.fail(breakers, times=2)
        world.clock.advance(30)
        breakers.record(breakers.admit("ep"), Outcome.OK)
        for admission in late:
            assert breakers.record(admission, Outcome.FAILURE) is None
        assert breakers.inspect("ep").streak == 0

    def test_late_throttle_holds_nothing(self, world: World) -> None:
        """A throttled answer of an older generation moves no probe."""
        breakers = world.breakers(QUICK)
        late = breakers.admit("ep")
        world.fail(breakers, times=2)
        breakers.record(late, Outcome.throttled(retry_after=3600))
        world.clock.advance(30)
        assert breakers.admit("ep").probe

    def test_cool_off_grows(self, world: World) -> None:
        """The nth trip in a row opens for cool_off x factor^(n-1), at most cool_off_max."""
        policy = Policy(trip=Streak(1), cool_off=10, cool_off_factor=3, cool_off_max=60, window=60)
        breakers = world.breakers(policy)
        world.fail(breakers)
        waits = []
        for _ in range(4):
            waits.append(breakers.admit("ep").retry_after)
            world.clock.advance(waits[-1])
            breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        assert waits == [10.0, 30.0, 60.0, 60.0]

    def test_jitter_spreads(self, world: World) -> None:
        """Jitter spreads the probes of many breakers within its share of the cool-off."""
        breakers = world.breakers(Policy(trip=Streak(1), cool_off=100, jitter=0.1))
        for number in range(40):
            world.fail(breakers, f"ep{number}")
        waits = [breakers.admit(f"ep{number}").retry_after for number in range(40)]
        assert all(90 <= wait <= 110 for wait in waits)
        assert max(waits) - min(waits) > 5

    def test_trips_in_a_row(self, world: World) -> None:
        """A success does not end a row of trips; a whole window of being closed does."""
        breakers, probe = probing(world)
        breakers.record(probe, Outcome.OK)
        world.succeed(breakers, times=3)
        world.clock.advance(59.999)
        world.fail(breakers, times=2)
        assert breakers.inspect("ep").trips == 2
        world.clock.advance(30)
        breakers.record(breakers.admit("ep"), Outcome.OK)
        world.clock.advance(60)
        world.fail(breakers, times=2)
        assert breakers.inspect("ep").trips == 1

    def test_disabled_after_trips_in_a_row(self, world: World) -> None:
        """So many trips in a row disable it; with reenable_after it comes back by itself, with clean counts."""
        policy = Policy(trip=Streak(2), cool_off=30, disable_after=2, reenable_after=3600)
        breakers, probe = probing(world, policy)
        transition = breakers.record(probe, Outcome.FAILURE)
        assert transition.after is State.DISABLED
        refused = breakers.admit("ep")
        assert (refused.reason, refused.retry_after) == ("disabled", 3600.0)
        world.clock.advance(3600)
        assert breakers.admit("ep").probe
        seen = breakers.inspect("ep")
        assert (seen.state, seen.trips, seen.streak, seen.counts.calls) == (State.HALF_OPEN, 0, 0, 0)

    def test_disabled_for_good(self, world: World) -> None:
        """Without reenable_after a disabled breaker waits for an operator, and nobody is told a time."""
        breakers = world.breakers(Policy(trip=Streak(1), disable_after=1))
        world.fail(breakers)
        world.clock.advance(365 * 86_400)
        refused = breakers.admit("ep")
        assert (refused.allowed, refused.reason, refused.retry_after, refused.retry_at) == (
            False,
            "disabled",
            None,
            None,
        )

    def test_ramp(self, world: World) -> None:
        """After closing, the share grows from a tenth to full, and never refuses."""
        policy = Policy(trip=Streak(2), cool_off=30, ramp=100)
        breakers, probe = probing(world, policy)
        breakers.record(probe, Outcome.OK)
        shares = []
        for _ in range(3):
            admission = breakers.admit("ep")
            assert admission.allowed
            shares.append(round(admission.share, 6))
            world.clock.advance(50)
        assert shares == [0.1, 0.55, 1.0]
        assert breakers.inspect("ep").healthy

    def test_clock_goes_back(self, world: World) -> None:
        """If the store's clock goes back an hour, what waits is due now, not an hour later."""
        breakers = opened(world)
        world.clock.advance(-3600)
        assert breakers.admit("ep").probe

    def test_clock_goes_back_on_a_lease(self, world: World) -> None:
        """A lease from the future is lost, so that nobody waits an hour for it."""
        breakers, _lost = probing(world)
        world.clock.advance(-3600)
        assert breakers.admit("ep").probe

    def test_sampled_trips_only_when_evaluated(self, world: World) -> None:
        """With sampled evaluation outcomes only count; `evaluate` decides, and probes still decide half_open."""
        policy = Policy(trip=Count(2), window=60, cool_off=30, evaluate="sampled", sample_every=30)
        breakers = world.breakers(policy)
        world.fail(breakers, times=5)
        assert breakers.inspect("ep").state is State.CLOSED
        (transition,) = breakers.evaluate("ep")
        assert (transition.after, transition.numbers["failed"]) == (State.OPEN, 5)
        world.clock.advance(30)
        probe = breakers.admit("ep")
        assert probe.probe
        assert not breakers.admit("ep").allowed, "probes bound half_open until the next sample"
        assert breakers.record(probe, Outcome.OK).after is State.CLOSED

    def test_a_sample_from_outside(self, world: World) -> None:
        """A tally from elsewhere is judged instead of the breaker's own counts, even of an unknown key."""
        policy = Policy(trip=Count(2), window=60, cool_off=30, evaluate="sampled", close_rate=0.5)
        breakers = world.breakers(policy)
        assert breakers.evaluate("ep", Counts(ok=9, failed=1)) == ()
        assert [each.after for each in breakers.evaluate("ep", Counts(failed=2))] == [State.OPEN]
        assert breakers.evaluate("ep", Counts(failed=2)) == ()
        world.clock.advance(30)
        assert [each.after for each in breakers.evaluate("ep", Counts(failed=2))] == [State.HALF_OPEN]
        assert [each.after for each in breakers.evaluate("ep", Counts(ok=1, failed=1))] == [State.CLOSED]
