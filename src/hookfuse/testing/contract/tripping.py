"""How a closed breaker counts, and when it opens."""

from __future__ import annotations

from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Count, Latency, Rate, Slow, Streak
from hookfuse.core.state import State
from hookfuse.testing.contract.world import OnBothFaces, World

REASON = Policy(trip=Streak(3), cool_off=30)


class Tripping(OnBothFaces):
    def test_asking_writes_nothing(self, world: World) -> None:
        """Asking about a closed or unknown key writes nothing."""
        breakers = world.breakers(REASON)
        assert breakers.admit("ep").allowed
        assert breakers.inspect("ep").generation == 0
        world.succeed(breakers)
        before = breakers.inspect("ep")
        assert breakers.admit("ep").allowed
        assert breakers.inspect("ep") == before

    def test_streak(self, world: World) -> None:
        """The nth failure in a row opens the breaker, in the same step that records it."""
        breakers = world.breakers(REASON)
        assert world.fail(breakers, times=2) is None
        transition = world.fail(breakers)
        assert transition is not None
        assert (transition.before, transition.after) == (State.CLOSED, State.OPEN)
        assert (transition.key, transition.reason, transition.numbers["streak"]) == ("ep", "streak", 3)
        assert breakers.inspect("ep").state is State.OPEN
        assert world.seen == [transition]

    def test_success_resets_the_streak(self, world: World) -> None:
        """A success in between starts the streak anew."""
        breakers = world.breakers(REASON)
        world.fail(breakers, times=2)
        world.succeed(breakers)
        assert world.fail(breakers, times=2) is None
        assert breakers.inspect("ep").streak == 2

    def test_streak_has_no_window(self, world: World) -> None:
        """One failure a day for n days trips a streak of n, however short the window is."""
        breakers = world.breakers(Policy(trip=Streak(10), window=60))
        for _ in range(9):
            assert world.fail(breakers) is None
            world.clock.advance(86_400)
        assert world.fail(breakers) is not None

    def test_count_in_window(self, world: World) -> None:
        """A count looks back exactly one window when failures are sparse: at its edge they still count."""
        breakers = world.breakers(Policy(trip=Count(2), window=60))
        world.fail(breakers, "edge")
        world.fail(breakers, "over")
        world.clock.advance(60)
        assert world.fail(breakers, "edge") is not None
        world.clock.advance(0.001)
        assert world.fail(breakers, "over") is None

    def test_window_slides(self, world: World) -> None:
        """Failures on both sides of a round minute are counted together."""
        breakers = world.breakers(Policy(trip=Count(5), window=60))
        world.clock.advance(59 - world.clock.now() % 60)
        world.fail(breakers, times=4)
        world.clock.advance(2)
        assert world.fail(breakers) is not None

    def test_all_time(self, world: World) -> None:
        """Without a window, failures of all time count."""
        breakers = world.breakers(Policy(trip=Count(3), window=None))
        for _ in range(2):
            world.fail(breakers)
            world.clock.advance(7 * 86_400)
            world.succeed(breakers)
        assert world.fail(breakers) is not None

    def test_success_clears(self, world: World) -> None:
        """With success_clears only failures since the last success count, and only those in the window."""
        breakers = world.breakers(Policy(trip=Count(3, success_clears=True), window=60))
        world.fail(breakers, times=2)
        world.succeed(breakers)
        assert world.fail(breakers, times=2) is None
        world.clock.advance(61)
        assert world.fail(breakers, times=2) is None
        assert world.fail(breakers) is not None

    def test_rate(self, world: World) -> None:
        """A rate trips at its share, not above it, and not before the minimum of calls."""
        breakers = world.breakers(Policy(trip=Rate(0.07, min_calls=100), window=60))
        world.succeed(breakers, times=92)
        assert world.fail(breakers, times=7) is None
        assert breakers.inspect("ep").counts.calls == 99
        world.succeed(breakers)
        (transition,) = world.seen
        assert transition.numbers == {"failed": 7, "calls": 100, "limit": 0.07}, "the minimum is complete"

    def test_rate_catches_what_a_streak_misses(self, world: World) -> None:
        """Two failures, one success, for ever: a rate beside the streak opens it."""
        breakers = world.breakers(Policy(trip=Streak(3) | Rate(0.5, min_calls=10), window=60))
        for _ in range(3):
            assert world.fail(breakers, times=2) is None
            world.succeed(breakers)
        transition = world.fail(breakers)
        assert transition is not None
        assert transition.reason == "rate"

    def test_slow_success_trips(self, world: World) -> None:
        """A success that takes as long as `over` is slow, and slow calls trip."""
        breakers = world.breakers(Policy(trip=Slow(0.5, over=2, min_calls=4), window=60))
        world.succeed(breakers, times=2, latency=1.999)
        world.succeed(breakers, latency=2.0)
        world.succeed(breakers, times=5)
        world.succeed(breakers, latency=2.0)
        (transition,) = world.seen
        assert transition.reason == "slow", "calls without a latency are no calls for this rule"

    def test_mean_latency_trips(self, world: World) -> None:
        """The mean latency of calls, failed ones included, trips at its limit."""
        breakers = world.breakers(Policy(trip=Latency(1.0, min_calls=3), window=60))
        world.succeed(breakers, latency=0.5)
        world.fail(breakers, latency=1.4)
        world.succeed(breakers, latency=1.1)
        (transition,) = world.seen
        assert transition.numbers == {"mean": 1.0, "calls": 3, "limit": 1.0}

    def test_throttled_holds(self, world: World) -> None:
        """A throttled answer refuses calls for its time, without a transition, a count or a charge."""
        breakers = world.breakers(REASON)
        world.fail(breakers)
        before = breakers.inspect("ep")
        breakers.record(breakers.admit("ep"), Outcome.throttled(retry_after=20))
        refused = world.another(REASON).admit("ep")
        assert not refused.allowed
        assert (refused.reason, refused.retry_after, refused.state) == ("throttled", 20.0, State.CLOSED)
        now = breakers.inspect("ep")
        assert (now.counts, now.streak, now.generation) == (before.counts, before.streak, before.generation)
        assert now.throttled_until == world.clock.now() + 20
        world.clock.advance(19.999)
        assert not breakers.admit("ep").allowed
        world.clock.advance(0.001)
        assert breakers.admit("ep").allowed
        assert world.seen == []

    def test_throttled_is_clamped(self, world: World) -> None:
        """A Retry-After is held within one second and one hour."""
        breakers = world.breakers(REASON)
        for asked, held in ((-5, 1.0), (0, 1.0), (1e9, 3600.0), (float("nan"), 1.0), (float("inf"), 3600.0)):
            breakers.record(breakers.admit("ep"), Outcome.throttled(retry_after=asked))
            assert breakers.admit("ep").retry_after == held
            breakers.reset("ep")

    def test_ignored_counts_nothing(self, world: World) -> None:
        """An ignored outcome leaves no trace."""
        breakers = world.breakers(REASON)
        before = breakers.inspect("ep")
        breakers.record(breakers.admit("ep"), Outcome.IGNORED, latency=3.0, error="no file descriptors")
        assert breakers.inspect("ep") == before

    def test_keys_are_apart(self, world: World) -> None:
        """What happens to one key is nothing to another."""
        breakers = world.breakers(REASON)
        world.fail(breakers, "sick", times=3)
        assert breakers.admit("well").allowed
        assert breakers.inspect("well").counts.calls == 0

    def test_workers_share_one_count(self, world: World) -> None:
        """Failures of many workers add up, and every worker is refused at once."""
        workers = [world.another(Policy(trip=Count(10), window=60)) for _ in range(5)]
        made = [world.fail(worker) for _ in range(2) for worker in workers]
        assert [transition is not None for transition in made] == [False] * 9 + [True]
        assert not any(worker.admit("ep").allowed for worker in workers)

    def test_totals_and_failures(self, world: World) -> None:
        """Totals count for ever; the last failures are kept with class, message and time, cut and bounded."""
        breakers = world.breakers(Policy(trip=Streak(100), window=10))
        world.succeed(breakers, times=3)
        for number in range(8):
            world.fail(breakers, error=TimeoutError(f"{number} " + "é" * 300))
        world.fail(breakers, error="503")
        world.clock.advance(60)
        seen = breakers.inspect("ep")
        assert (seen.totals.ok, seen.totals.failed) == (3, 9)
        assert seen.counts.calls == 0
        assert [failure.type for failure in seen.failures] == ["TimeoutError"] * 4 + ["failure"]
        assert seen.failures[0].message.startswith("4 é")
        assert all(len(failure.message.encode()) <= 200 for failure in seen.failures)
        assert seen.failures[-1].message == "503"
        assert seen.failures[-1].at == world.clock.now() - 60

    def test_rates_are_shown(self, world: World) -> None:
        """Inspecting shows the share of failures and the mean latency of the window."""
        breakers = world.breakers(Policy(trip=Streak(100)))
        assert breakers.inspect("ep").failure_rate == 0
        assert breakers.inspect("ep").mean_latency is None
        world.succeed(breakers, times=3, latency=0.1)
        world.fail(breakers, latency=0.5)
        assert breakers.inspect("ep").failure_rate == 0.25
        assert breakers.inspect("ep").mean_latency == 0.2

    def test_shadow(self, world: World) -> None:
        """In shadow mode it decides and announces as if enforced, and lets everything pass."""
        breakers = world.breakers(Policy(trip=Streak(2), cool_off=30, mode="shadow"))
        world.fail(breakers, times=2)
        assert [each.after for each in world.seen] == [State.OPEN]
        passed = breakers.admit("ep")
        assert passed.allowed
        assert passed.would_deny
        assert breakers.record(passed, Outcome.OK) is None
        assert breakers.inspect("ep").totals.ok == 0, "its outcome is dropped"
        world.clock.advance(30)
        probe = breakers.admit("ep")
        assert probe.probe
        breakers.record(probe, Outcome.OK)
        assert [each.after for each in world.seen] == [State.OPEN, State.HALF_OPEN, State.CLOSED]
