"""The shortest histories that the state machine found worth keeping, one claim each."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from hookfuse import Breakers, Count, Outcome, Policy, Rate, Slow, State, Streak, Transition
from hookfuse.core.admission import Denial
from hookfuse.core.window import Counts
from hookfuse.errors import InvalidPolicy
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from tests.unit.properties.strategies import look


class Scene:
    """Breakers of one policy, their clock, and what they announced."""

    def __init__(self, policy: Policy) -> None:
        self.clock = ManualClock()
        self.policy = policy
        self.breakers = Breakers(MemoryStore(clock=self.clock), policy_for=lambda _: self.policy)
        self.announced: list[Transition] = []
        self.breakers.subscribe(self.announced.append)

    def report(self, *outcomes: Outcome, latency: float | None = None) -> None:
        for outcome in outcomes:
            self.breakers.record(self.breakers.admit("key"), outcome, latency=latency)

    def trip(self) -> None:
        self.report(Outcome.FAILURE)
        assert self.breakers.inspect("key").state is State.OPEN


def test_the_end_of_an_override_is_announced_by_whoever_finds_it() -> None:
    """An override that runs out ends with one announcement, also when an ordinary admission finds it over."""
    scene = Scene(Policy())
    scene.breakers.force_closed("key", until=scene.clock.now() + 1)
    scene.clock.advance(1)
    scene.breakers.admit("key")
    scene.breakers.inspect("key")
    assert [each.reason for each in scene.announced] == ["force_closed", "override_ended"]
    assert scene.announced[-1].generation == scene.breakers.inspect("key").generation


def test_an_override_that_ran_out_is_not_shown_as_healthy() -> None:
    """What will answer the next caller with a probe is not plainly closed."""
    scene = Scene(Policy())
    scene.breakers.force_open("key", until=scene.clock.now() + 1)
    scene.clock.advance(1)
    shown, listed = scene.breakers.inspect("key").healthy, [each.key for each in scene.breakers.unhealthy()]
    assert scene.breakers.admit("key").probe
    assert (shown, listed) == (False, ["key"])


def half_open_in_the_future(probes: int = 1) -> Scene:
    """A breaker that became half-open before the clock went back by a minute."""
    scene = Scene(Policy(trip=Streak(1), cool_off=1, probes=probes, probe_lease=30))
    scene.trip()
    scene.clock.advance(1)
    scene.breakers.evaluate("key")
    scene.clock.advance(-60)
    return scene


def test_a_clock_that_went_back_does_not_let_the_herd_through() -> None:
    """In half_open no more than `probes` calls are in flight, also after the clock went back."""
    scene = half_open_in_the_future(probes=2)
    granted = [scene.breakers.admit("key").probe for _ in range(10)]
    assert sum(granted) == 2


def test_a_probe_counts_after_the_clock_went_back() -> None:
    """A probe that was granted and settled after the clock went back closes the breaker."""
    scene = half_open_in_the_future()
    scene.report(Outcome.OK)
    assert scene.breakers.inspect("key").state is State.CLOSED


def test_a_hold_from_a_lost_future_does_not_hide_a_new_one() -> None:
    """A Retry-After holds the key, whatever was held before the clock went back."""
    scene = Scene(Policy())
    scene.report(Outcome.throttled(3600))
    scene.clock.advance(-2 * 3600)
    scene.report(Outcome.throttled(30))
    admission = scene.breakers.admit("key")
    assert (admission.reason, admission.retry_after) == (Denial.THROTTLED, 30)


def test_an_override_of_a_closed_breaker_begins_no_ramp() -> None:
    """The ramp follows closing: forcing what is closed takes nothing off its flow."""
    scene = Scene(Policy(ramp=60))
    scene.report(Outcome.OK)
    scene.breakers.force_closed("key")
    forced = scene.breakers.admit("key").share
    scene.breakers.unforce("key")
    assert (forced, scene.breakers.admit("key").share) == (1, 1)


def test_an_override_does_not_interrupt_being_closed() -> None:
    """A breaker closed for a whole window trips for the first time in a row, overrides in between or not."""
    scene = Scene(Policy(trip=Streak(1), window=10, cool_off=1))
    scene.trip()
    scene.clock.advance(1)
    scene.report(Outcome.OK)
    scene.clock.advance(100)
    scene.breakers.force_closed("key")
    scene.breakers.unforce("key")
    scene.trip()
    assert scene.breakers.inspect("key").trips == 1


def test_a_sample_of_successes_opens_nothing() -> None:
    """The failures that opened a breaker are not held against the sample of its half-open time."""
    for rule in (Streak(2), Streak(2) | Rate(0.5, min_calls=1), Count(2, success_clears=True)):
        scene = Scene(Policy(trip=rule, evaluate="sampled", cool_off=1))
        scene.report(Outcome.FAILURE, Outcome.FAILURE)
        scene.breakers.evaluate("key")
        scene.clock.advance(1)
        scene.breakers.evaluate("key")
        assert scene.breakers.inspect("key").state is State.HALF_OPEN
        scene.breakers.evaluate("key", Counts(ok=5))
        assert scene.breakers.inspect("key").state is not State.OPEN


def test_a_throttled_call_counts_nowhere() -> None:
    """A throttled call is neither good nor bad, and not slow either."""
    scene = Scene(Policy(trip=Slow(0.5, over=1)))
    scene.report(Outcome.throttled(1), latency=2)
    assert scene.breakers.inspect("key").totals == (0, 0, 0)


def test_fewer_probes_make_a_longer_wait() -> None:
    """When a new policy allows fewer probes than are in flight, a refusal names the time when one is free again."""
    scene = Scene(Policy(trip=Streak(1), cool_off=1, probes=2, probe_lease=10))
    scene.trip()
    scene.clock.advance(1)
    scene.breakers.admit("key")
    scene.clock.advance(3)
    scene.breakers.admit("key")
    scene.policy = Policy(trip=Streak(1), cool_off=1, probes=1, probe_lease=10)
    refused = scene.breakers.admit("key")
    scene.clock.advance(refused.retry_after or 0)
    assert scene.breakers.admit("key").allowed


def test_fewer_probes_and_a_hold_make_the_longer_of_two_waits() -> None:
    """When a held half-open breaker gets fewer probes than are in flight, a refusal waits for the hold and a slot."""
    scene = Scene(Policy(trip=Streak(1), cool_off=1, probes=2, probe_lease=10))
    scene.trip()
    scene.clock.advance(1)
    scene.breakers.admit("key")
    scene.report(Outcome.throttled(2))
    scene.policy = Policy(trip=Streak(1), cool_off=1, probes=1, probe_lease=10)
    refused = scene.breakers.admit("key")
    scene.clock.advance(refused.retry_after or 0)
    assert scene.breakers.admit("key").allowed


closings: dict[str, st.SearchStrategy[Any]] = {
    "cool_off": st.sampled_from([1, 5, 20]),
    "cool_off_factor": st.sampled_from([1, 2, 10]),
    "cool_off_max": st.sampled_from([None, 20, 40]),
    "jitter": st.sampled_from([0, 0.5]),
    "probe_lease": st.sampled_from([1, 60]),
    "forget_after": st.sampled_from([1, 5, 20, 40, 7200]),
    "window": st.sampled_from([1, 5]),
}


@look(150)
@given(
    numbers=st.fixed_dictionaries(closings), trips=st.integers(1, 3), then=st.sampled_from(["open", "probe", "held"])
)
def test_a_breaker_is_not_forgotten_before_its_time_is_over(numbers: dict[str, Any], trips: int, then: str) -> None:
    """Until the instant that a refusal names, the key stays refused, whatever the policy says about forgetting."""
    try:
        scene = Scene(Policy(trip=Streak(1), **numbers))
    except InvalidPolicy:
        assume(False)
    for _ in range(trips):
        scene.report(Outcome.FAILURE)
        refused = scene.breakers.admit("key")
        scene.clock.advance((refused.retry_after or 0) - 0.001)
        assert not scene.breakers.admit("key").allowed
        scene.clock.advance(0.001)
    probe = scene.breakers.admit("key")
    # In time it may well be forgotten: nobody asked for it for so long.
    if probe.probe and then != "open":
        if then == "held":
            scene.breakers.record(probe, Outcome.throttled(100))
        refused = scene.breakers.admit("key")
        scene.clock.advance((refused.retry_after or 0) - 0.001)
        assert not scene.breakers.admit("key").allowed
