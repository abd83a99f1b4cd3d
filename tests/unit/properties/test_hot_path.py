"""The short cuts of a guarded call against the long way: admit, call, record."""

from __future__ import annotations

import random
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse import Admission, AsyncBreakers, BreakerOpen, Breakers, Outcome, Policy, Rate, State, Streak, Transition
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from tests.unit.properties.driving import now_or_never
from tests.unit.properties.strategies import OUTCOMES, look, touchy_policies
from tests.unit.properties.walks import hold, seeds

KEYS = ("a", "b")


class Cancelled(BaseException):
    """What a caller's cancel looks like."""


class Do(NamedTuple):
    """Wait; then do `what`, which takes a while. Times are an edge of the policy and a few milliseconds more."""

    what: str
    key: str = "a"
    wait: int = 0
    wait_more: int = 0
    takes: int = 0
    takes_more: int = 0
    seen: bool = False


ENDINGS = ["error", "cancel", *OUTCOMES]
ORDERS = ["force_open", "force_closed", "unforce", "probe", "disable", "enable", "reset"]
WHATS = [*["ok"] * 30, *["failure"] * 10, *["begin", "finish"] * 5, *ENDINGS, *ORDERS]
WAITS = [0] * 30 + [1] * 8 + [2] * 4 + [3, 3, 4, 4, 5, 6, 7, 8]
TAKES = [0] * 8 + [1, 2, 4]
TAKES_MORE = [0, 0, 0, 1, 40, 100]
doings = st.builds(
    Do,
    st.sampled_from(WHATS),
    st.sampled_from(KEYS),
    st.sampled_from(WAITS),
    st.integers(-1, 3),
    st.sampled_from(TAKES),
    st.sampled_from(TAKES_MORE),
    st.booleans(),
)
PLAIN: dict[str, list[Any]] = {
    "trip": [Streak(2), Rate(0.5, min_calls=3), Streak(3) | Rate(0.2, min_calls=5), Rate(0.4, min_calls=2)],
    "window": [1.0, 0.1, 10.0, 1.0, None],
    "cool_off": [0.5, 2.0],
    "cool_off_max": [2.0],
    "forget_after": [20.0],
    "ramp": [0.0, 0.0, 1.0],
    "evaluate": ["inline", "inline", "inline", "sampled"],
    "sample_every": [0.01],
}
"""Policies that do not judge latency: those for which a success has a short cut."""
plain_policies = st.builds(Policy, **{name: st.sampled_from(choices) for name, choices in PLAIN.items()})


def edges(policy: Policy) -> list[int]:
    longest = min(policy.window_ms, policy.forget_ms)
    width = min(policy.bucket_ms, 2_000)
    ends = [policy.cool_off_ms, policy.ramp_ms, longest + width, policy.forget_ms]
    return [0, width // 3, width, longest - width, longest, *ends]


class Held(NamedTuple):
    """A call that began in both stores."""

    admission: Admission
    guard: Any
    started: float


class Pair:
    """Two stores with one clock: one is called through `guard`, the other through `admit` and `record`."""

    def __init__(self, policy: Policy, *, asynchronous: bool) -> None:
        # The two stores would draw their own jitter.
        self.policy = Policy.from_dict({**policy.to_dict(), "jitter": 0})
        self.asynchronous = asynchronous
        self.clock = ManualClock()
        self.short, self.long = MemoryStore(clock=self.clock), MemoryStore(clock=self.clock)
        self.guards = (AsyncBreakers if asynchronous else Breakers)(self.short, policy=self.policy)
        self.orders = Breakers(self.short, policy=self.policy)
        self.steps = Breakers(self.long, policy=self.policy)
        self.told: tuple[list[Transition], list[Transition]] = ([], [])
        self.short.subscribe(self.told[0].append)
        self.long.subscribe(self.told[1].append)
        self.calls: list[Held] = []

    def do(self, doing: Do) -> None:
        steps = edges(self.policy)
        self.clock.advance(max(steps[doing.wait] + doing.wait_more, 0) / 1000)
        takes = (steps[doing.takes] + doing.takes_more) / 1000
        if doing.what in ORDERS:
            for face in (self.orders, self.steps):
                getattr(face, doing.what)(doing.key)
        elif doing.what == "begin":
            self.calls += self.begin(doing.key)
        elif doing.what == "finish":
            if self.calls:
                self.end(self.calls.pop(0), "ok", takes)
        elif doing.what != "look":
            for call in self.begin(doing.key):
                self.end(call, doing.what, takes)
        if doing.seen or doing.what == "look":
            self.compare()

    def begin(self, key: str) -> list[Held]:
        """A call that was admitted by both, or none that was refused by both for the same reason."""
        admission = self.steps.admit(key)
        guard = self.guards.guard(key)
        try:
            if self.asynchronous:
                now_or_never(guard.__aenter__())  # type: ignore[union-attr]
            else:
                guard.__enter__()  # type: ignore[union-attr]
        except BreakerOpen as refusal:
            assert not admission.allowed
            wanted = admission.refusal()
            shown = (refusal.key, refusal.state, refusal.retry_at, refusal.reason, refusal.why)
            assert shown == (wanted.key, wanted.state, wanted.retry_at, wanted.reason, wanted.why)
            wait = wanted.retry_after
            assert refusal.retry_after == (None if wait is None else pytest.approx(wait, abs=1e-5))
            return []
        assert admission.allowed
        return [Held(admission, guard, self.clock.now())]

    def end(self, call: Held, what: str, takes: float) -> None:
        self.clock.advance(takes)
        error = ValueError("no") if what == "error" else Cancelled() if what == "cancel" else None
        if what not in ("ok", "error", "cancel"):
            call.guard.record(OUTCOMES[what])
        leave = call.guard.__aexit__ if self.asynchronous else call.guard.__exit__
        left = leave(None if error is None else type(error), error, None)
        if self.asynchronous:
            now_or_never(left)
        if what == "cancel":
            self.steps.release(call.admission)
        else:
            outcome = Outcome.FAILURE if what == "error" else OUTCOMES[what]
            latency = max(self.clock.now() - call.started, 0.0)
            self.steps.record(call.admission, outcome, latency=latency, error=error)

    def compare(self) -> None:
        for key in KEYS:
            assert self.short.inspect(key, self.policy) == self.long.inspect(key, self.policy)
        assert self.told[0] == self.told[1]
        unhealthy = [sorted(each.key for each in face.unhealthy()) for face in (self.orders, self.steps)]
        assert unhealthy[0] == unhealthy[1]


def check(policy: Policy, doings: list[Do], *, asynchronous: bool = False) -> State:
    """Where both ways lead for the first key."""
    pair = Pair(policy, asynchronous=asynchronous)
    for doing in doings:
        pair.do(doing)
    pair.compare()
    return pair.steps.inspect("a").state


histories = st.lists(doings, max_size=30)


@look(80)
@given(policy=plain_policies | touchy_policies, doings=histories)
def test_a_guarded_call_counts_as_its_steps_do(policy: Policy, doings: list[Do]) -> None:
    """Over any history `guard` leaves the same snapshots, refusals and transitions as admit and record."""
    check(policy, doings)


@look(80)
@given(policy=plain_policies | touchy_policies, doings=histories)
def test_an_awaited_guard_counts_as_its_steps_do(policy: Policy, doings: list[Do]) -> None:
    """Over any history an async `guard` leaves the same snapshots, refusals and transitions as admit and record."""
    check(policy, doings, asynchronous=True)


def walk(policy: Policy, asynchronous: bool, doings: list[Do]) -> Exception | None:
    try:
        check(policy, doings, asynchronous=asynchronous)
    except Exception as error:
        return error
    return None


def draw_doing(draw: random.Random, whats: list[str], waits: list[int], takes_more: list[int]) -> Do:
    return Do(
        draw.choice(whats),
        draw.choice("aaab"),
        draw.choice(waits),
        draw.randint(-1, 3),
        draw.choice(TAKES),
        draw.choice(takes_more),
        draw.random() < 0.2,
    )


def test_long_walks_of_guarded_calls_count_as_their_steps_do() -> None:
    """Over many long random histories, too, both ways lead to the same."""
    for seed in seeds(350):
        draw = random.Random(seed)
        policy = Policy(**{name: draw.choice(choices) for name, choices in PLAIN.items()})
        doings = [draw_doing(draw, WHATS, WAITS, TAKES_MORE) for _ in range(80)]
        hold(seed, policy, doings, partial(walk, policy, seed % 2 == 1))


def test_walks_with_a_clock_that_slips_count_as_their_steps_do() -> None:
    """While nothing waits or is old enough to leave, both ways lead to the same also when the clock goes back."""
    whats = [what for what in WHATS if not what.startswith("throttled") and what not in ORDERS]
    slips = [*TAKES_MORE, -1, -3, -40, -3_000]
    for seed in seeds(100):
        draw = random.Random(seed)
        numbers = {name: draw.choice(choices) for name, choices in PLAIN.items()}
        numbers |= {"window": draw.choice([None, 3600.0]), "forget_after": 4 * 3600.0}
        numbers |= {"cool_off_max": 3600.0, "ramp": 0.0}
        policy = Policy(**numbers)
        doings = [draw_doing(draw, whats, [0, 0, 0, 5], slips)._replace(takes=0) for _ in range(40)]
        hold(seed, policy, doings, partial(walk, policy, seed % 2 == 1))


def test_a_guard_is_refused_until_the_cool_off_is_over() -> None:
    """A millisecond before the cool-off ends a guarded call is refused; when it ends, it is the probe."""
    policy = Policy(trip=Streak(1), cool_off=2)
    assert check(policy, [Do("failure"), Do("ok", wait_more=1_999)]) is State.OPEN
    assert check(policy, [Do("failure"), Do("ok", wait_more=2_000)]) is State.CLOSED


def test_a_success_is_judged_when_older_ones_leave_the_window() -> None:
    """A success trips a Rate rule, too, when the failure rate rose because better times left the window."""
    policy = Policy(trip=Rate(0.5, min_calls=3), window=10)
    before = [Do("ok"), Do("ok"), Do("ok"), Do("failure", wait_more=9_500), Do("failure"), Do("ok")]
    assert check(policy, [*before, Do("ok", wait_more=500)]) is State.CLOSED
    assert check(policy, [*before, Do("ok", wait_more=501)]) is State.OPEN


def test_a_success_is_judged_when_it_makes_enough_calls() -> None:
    """A success trips a Rate rule, too, when it is the last of the calls that the rule waits for."""
    policy = Policy(trip=Rate(0.4, min_calls=5), window=10)
    before = [Do("failure"), Do("failure"), Do("ok"), Do("ok")]
    assert check(policy, before) is State.CLOSED
    assert check(policy, [*before, Do("ok")]) is State.OPEN


def test_a_late_success_is_only_counted_in_the_totals() -> None:
    """A guarded success that began before the last transition changes nothing but the totals."""
    policy = Policy(trip=Streak(1), cool_off=1)
    done = [Do("begin"), Do("failure"), Do("ok", wait_more=1_000), Do("ok"), Do("ok"), Do("finish", seen=True)]
    assert check(policy, done) is State.CLOSED


def test_a_clock_that_goes_back_during_a_call_takes_no_time_off_others() -> None:
    """A call that ended before it began took no time; it does not shorten the calls beside it."""
    check(Policy(), [Do("ok", takes_more=5), Do("ok", takes_more=50), Do("ok", takes_more=-30)])


def test_a_look_while_the_clock_is_back_loses_no_later_call() -> None:
    """Looking at a key whose newest calls lie in the future drops those, and nothing that comes after."""
    back = Do("ok", "b", takes_more=-5, seen=True)
    check(Policy(), [Do("ok", takes_more=50), back, Do("ok", wait_more=9, takes_more=50), Do("failure")])


def test_a_step_decides_anew_how_long_a_key_is_kept() -> None:
    """After a step, what the short cut did before is not counted again towards how long the key is kept."""
    policy = Policy(window=None, cool_off=2, forget_after=20)
    check(policy, [Do("ok"), Do("ok", wait_more=100), Do("ok", takes_more=-3), Do("look", wait_more=20_000)])


def test_a_busy_key_is_not_forgotten() -> None:
    """Successes keep a key: it is only forgotten a window and a bucket after the last of them."""
    check(Policy(window=10), [Do("ok"), Do("ok", wait_more=999), Do("look", wait_more=10_500)])


def test_a_busy_key_of_all_time_is_not_forgotten() -> None:
    """With a window of all time, too, only a quiet key is forgotten."""
    calls = [Do("ok", wait_more=25 * 1_000) for _ in range(4)]
    check(Policy(window=None, forget_after=60), [*calls, Do("error", "b")])
