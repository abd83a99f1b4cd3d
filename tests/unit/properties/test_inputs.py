"""Whatever is passed in, the answer is a documented one or an error of ours, and nothing is half done."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookfuse import AsyncBreakers, Breakers, HookfuseError, Latency, Outcome, Policy, Snapshot, Streak, endpoint_id
from hookfuse.core.keys import check_key
from hookfuse.core.outcome import classify_exception
from hookfuse.core.state import Order
from hookfuse.core.window import Counts
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from tests.unit.properties.driving import now_or_never
from tests.unit.properties.strategies import HUGE, junk, look

POLICY = Policy(trip=Streak(3) | Latency(1e3, min_calls=5), window=10, cool_off=5)
SCENES = ("unknown", "closed", "open", "half_open", "disabled", "forced_open", "forced_closed", "throttled")
scenes = st.sampled_from(SCENES)
faces = st.sampled_from([Breakers, AsyncBreakers])
useless = junk.filter(lambda value: not callable(value) and value is not None)
"""Junk in the place of a function."""
keys = st.just("key") | junk
FaceType = type[Breakers] | type[AsyncBreakers]


class Setting:
    """A key in some state, seen through one face or the other."""

    def __init__(self, face: FaceType, scene: str) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.breakers = face(self.store, policy=POLICY)
        plain = Breakers(self.store, policy=POLICY)
        if scene != "unknown":
            plain.record(plain.admit("key"), Outcome.OK, latency=0.1)
        if scene in ("open", "half_open"):
            for _ in range(3):
                plain.record(plain.admit("key"), Outcome.FAILURE, latency=0.1)
        if scene == "half_open":
            self.clock.advance(5)
            plain.admit("key")
        if scene == "throttled":
            plain.record(plain.admit("key"), Outcome.throttled(30))
        if scene in ("disabled", "forced_open", "forced_closed"):
            order = {"disabled": plain.disable, "forced_open": plain.force_open, "forced_closed": plain.force_closed}
            order[scene]("key")

    def call(self, verb: str, *args: Any, **more: Any) -> Any:
        """Call a method; of either face, the value."""
        value = getattr(self.breakers, verb)(*args, **more)
        return now_or_never(value) if inspect.iscoroutine(value) else value

    def seen(self) -> tuple[int, Snapshot]:
        return len(self.store), self.store.inspect("key", POLICY)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """The block may raise an error of ours; then nothing has changed, and its text can be read."""
        before = self.seen()
        try:
            yield
        except HookfuseError as error:
            assert str(error)
            assert self.seen() == before

    def still_works(self) -> None:
        """Whatever was taken, the breaker can be asked, told, judged and read for as long as it is kept."""
        for wait in (0, 1, 1, 5, 11, 60):
            self.clock.advance(wait)
            admission = self.call("admit", "key")
            if admission.allowed:
                self.call("record", admission, Outcome.OK, latency=0.1)
            else:
                assert str(admission.refusal())
                assert repr(admission)
            self.call("evaluate", "key")
            found = self.call("inspect", "key")
            assert found.why is not None
            assert found.mean_latency is None or found.mean_latency >= 0


@look(150)
@given(face=faces, scene=scenes, verb=st.sampled_from(["admit", "inspect", "evaluate", *Order]), key=junk)
def test_any_key_is_taken_or_refused(face: FaceType, scene: str, verb: str, key: Any) -> None:
    """A key that is no usable string is refused by every verb."""
    setting = Setting(face, scene)
    with setting.refusing():
        setting.call(verb, key)
        check_key(key)


@look(150)
@given(face=faces, scene=scenes, order=st.sampled_from([Order.FORCE_OPEN, Order.FORCE_CLOSED]), data=st.data())
def test_any_order_is_obeyed_or_refused(face: FaceType, scene: str, order: Order, data: st.DataObject) -> None:
    """An override with any reason, actor and end is taken or refused, and its refusals can be read."""
    setting = Setting(face, scene)
    given_words = data.draw(st.fixed_dictionaries({}, optional={"reason": junk, "until": junk, "actor": junk}))
    with setting.refusing():
        setting.call(order, "key", **given_words)
    setting.still_works()


@pytest.mark.parametrize(
    "until",
    [1.7e12, 1e15, 1e300, 1e306, pytest.param(10**400, id="huge"), -1e18, 2**63],
)
@pytest.mark.parametrize("order", [Order.FORCE_OPEN, Order.FORCE_CLOSED])
def test_a_far_end_of_an_override_is_taken_or_refused(order: Order, until: float) -> None:
    """An `until` given in milliseconds by mistake, or further off than any calendar, harms nothing."""
    setting = Setting(Breakers, "closed")
    with setting.refusing():
        setting.call(order, "key", until=until)
    setting.still_works()


@look(80)
@given(face=faces, scene=scenes, order=st.sampled_from(Order), reason=junk, actor=junk)
def test_any_words_of_an_operator_are_taken_or_refused(
    face: FaceType, scene: str, order: Order, reason: Any, actor: Any
) -> None:
    """Every order with any reason and actor is taken or refused."""
    setting = Setting(face, scene)
    with setting.refusing():
        setting.call(order, "key", reason=reason, actor=actor)
    setting.still_works()


outcomes = st.sampled_from([Outcome.OK, Outcome.FAILURE, Outcome.IGNORED, Outcome.throttled(5)]) | junk
latencies = st.sampled_from([*HUGE, 0, 5e-324, 9.3e15]) | junk


@look(250)
@given(face=faces, scene=scenes, outcome=outcomes, latency=latencies, error=junk)
@example(face=Breakers, scene="closed", outcome=Outcome.OK, latency=10**400, error=None)
@example(face=Breakers, scene="closed", outcome=Outcome.OK, latency=1e306, error=None)
@example(face=Breakers, scene="closed", outcome=Outcome.OK, latency=1e16, error=None)
@example(face=Breakers, scene="closed", outcome=Outcome.FAILURE, latency=None, error="\ud800" * 300)
def test_any_report_is_counted_or_refused(face: FaceType, scene: str, outcome: Any, latency: Any, error: Any) -> None:
    """A report is counted, or refused with its admission still to be settled; either way the breaker works on."""
    setting = Setting(face, scene)
    admission = setting.call("admit", "key")
    before = setting.seen()
    try:
        setting.call("record", admission, outcome, latency=latency, error=error)
    except HookfuseError as refusal:
        assert str(refusal)
        assert setting.seen() == before
        assert not admission.settled
    else:
        assert admission.settled
    setting.still_works()


@look(80)
@given(face=faces, scene=scenes, verb=st.sampled_from(["record", "release"]), admission=junk)
def test_only_an_admission_is_settled(face: FaceType, scene: str, verb: str, admission: Any) -> None:
    """What is no admission can be neither recorded nor released."""
    setting = Setting(face, scene)
    before = setting.seen()
    with pytest.raises(HookfuseError):
        setting.call(verb, admission, *([Outcome.OK] if verb == "record" else []))
    assert setting.seen() == before


@pytest.mark.parametrize("face", [Breakers, AsyncBreakers])
@pytest.mark.parametrize("scene", ["open", "disabled", "forced_open", "throttled", "half_open"])
def test_a_refused_call_has_no_outcome(face: FaceType, scene: str) -> None:
    """The outcome of a refused call is refused; releasing it is allowed and does nothing."""
    setting = Setting(face, scene)
    admission = setting.call("admit", "key")
    before = setting.seen()
    with pytest.raises(HookfuseError):
        setting.call("record", admission, Outcome.FAILURE)
    setting.call("release", admission)
    assert setting.seen() == before


sizes = st.integers(0, 5) | st.sampled_from([10**400, 2**63, True, 1.5, -1])
tallies = st.builds(Counts, sizes, sizes, sizes, sizes, sizes) | junk


@look(150)
@given(face=faces, scene=scenes, tally=tallies)
@example(face=Breakers, scene="closed", tally=Counts(ok=5, timed=5, latency_ms=10**400))
def test_any_tally_is_judged_or_refused(face: FaceType, scene: str, tally: Any) -> None:
    """A tally is judged, or refused with nothing changed."""
    setting = Setting(face, scene)
    with setting.refusing():
        setting.call("evaluate", "key", tally)
    setting.still_works()


@look(100)
@given(face=faces, name=st.sampled_from(["store", "policy", "policy_for", "classify", "consistency"]), value=useless)
@example(face=Breakers, name="store", value=MemoryStore)
@example(face=AsyncBreakers, name="store", value=MemoryStore)
@example(face=Breakers, name="policy", value=Policy)
def test_breakers_are_made_or_refused(face: FaceType, name: str, value: Any) -> None:
    """Any argument of the constructor is taken or refused."""
    try:
        face(**{name: value})
    except HookfuseError as error:
        assert str(error)


@look(60)
@given(face=faces, observer=junk)
def test_an_observer_is_taken_or_refused(face: FaceType, observer: Any) -> None:
    """Only what can be called can subscribe."""
    setting = Setting(face, "closed")
    with setting.refusing():
        setting.breakers.subscribe(observer)
        assert callable(observer)


async def _guarded(breakers: AsyncBreakers, key: Any, act: Callable[[Any], None], **more: Any) -> None:
    async with breakers.guard(key, **more) as call:
        act(call)


def guarded(setting: Setting, key: Any, act: Callable[[Any], None], **more: Any) -> None:
    if isinstance(setting.breakers, AsyncBreakers):
        now_or_never(_guarded(setting.breakers, key, act, **more))
    else:
        with setting.breakers.guard(key, **more) as call:
            act(call)


class Failed(Exception):
    """The caller's own error."""


def fail(_: Any) -> None:
    raise Failed


@look(100)
@given(face=faces, scene=scenes, key=keys)
def test_a_guard_takes_or_refuses_any_key(face: FaceType, scene: str, key: Any) -> None:
    """A guarded block runs, or one of our errors says why not."""
    setting = Setting(face, scene)
    ran: list[object] = []
    try:
        guarded(setting, key, ran.append)
    except HookfuseError as error:
        assert str(error)
        assert not ran
    else:
        assert ran


@look(80)
@given(face=faces, scene=st.sampled_from(["unknown", "closed"]), classify=useless)
def test_a_guard_refuses_a_classify_that_is_no_function(face: FaceType, scene: str, classify: Any) -> None:
    """A `classify` that cannot be called is refused with a sentence, not with a TypeError in place of the caller's."""
    setting = Setting(face, scene)
    with pytest.raises(HookfuseError):
        guarded(setting, "key", fail, classify=classify)


@look(80)
@given(face=faces, verdict=junk)
def test_a_guard_refuses_a_verdict_that_is_no_outcome(face: FaceType, verdict: Any) -> None:
    """What `classify` returns is an outcome, or refused with nothing counted."""
    setting = Setting(face, "closed")
    before = setting.seen()
    with pytest.raises((HookfuseError, Failed)) as caught:
        guarded(setting, "key", fail, classify=lambda _: verdict)
    if isinstance(caught.value, HookfuseError):
        assert setting.seen() == before
    else:
        assert isinstance(verdict, Outcome)


@look(120)
@given(face=faces, outcome=outcomes, latency=latencies, error=junk)
def test_a_guard_takes_or_refuses_any_report(face: FaceType, outcome: Any, latency: Any, error: Any) -> None:
    """`call.record` with anything is counted, or refused as an error of the block."""
    setting = Setting(face, "closed")
    try:
        guarded(setting, "key", lambda call: call.record(outcome, latency=latency, error=error))
    except HookfuseError as refusal:
        assert str(refusal)
    setting.still_works()


async def _plain_coroutine(*_: Any) -> str:
    return "called"


def _plain_function(*_: Any) -> str:
    return "called"


@look(120)
@given(face=faces, scene=scenes, field=st.sampled_from(["key", "fallback", "classify", "function"]), value=useless)
def test_a_protected_function_is_made_or_refused(face: FaceType, scene: str, field: str, value: Any) -> None:
    """`protect` takes any argument or refuses it, at the latest when the function is called."""
    setting = Setting(face, scene)
    words = {"key": "key", "fallback": None, "classify": None, field: value}
    function = words.pop("function", _plain_coroutine if face is AsyncBreakers else _plain_function)
    try:
        protected = cast(Any, setting.breakers.protect)(**words)(function)
        result = protected()
        assert (now_or_never(result) if inspect.iscoroutine(result) else result) == "called"
    except HookfuseError as error:
        assert str(error)


class Unreadable(Exception):
    """An error that cannot even say its name."""

    def __str__(self) -> str:
        raise Failed


def test_an_error_without_a_text_is_still_a_failure() -> None:
    """An error whose text cannot be read counts as any other failure does."""
    setting = Setting(Breakers, "closed")
    with pytest.raises(Unreadable):
        guarded(setting, "key", lambda _: (_ for _ in ()).throw(Unreadable()))
    assert setting.call("inspect", "key").totals.failed == 1
    assert classify_exception(Unreadable()) is Outcome.FAILURE


BEYOND_WORDS = 10**4400
"""A number that Python refuses to write in decimal."""


@pytest.mark.parametrize(
    "call",
    [
        lambda: Policy(probes=BEYOND_WORDS),
        lambda: Breakers().admit(cast(Any, BEYOND_WORDS)),
        lambda: Breakers().force_open("key", until=BEYOND_WORDS),
        lambda: Outcome.throttled(BEYOND_WORDS),
        lambda: endpoint_id(cast(Any, BEYOND_WORDS), "https://h.test"),
        lambda: Breakers(policy=cast(Any, BEYOND_WORDS)),
    ],
    ids=["policy", "key", "until", "throttled", "endpoint_id", "breakers"],
)
def test_a_refusal_can_be_read_whatever_was_passed(call: Callable[[], object]) -> None:
    """The message of a refusal can be read even where the value itself cannot be written."""
    text = refusal_of(call)
    assert isinstance(text, str), f"{text} instead of a sentence of ours"
    assert len(text) < 1_000


def refusal_of(call: Callable[[], object]) -> str | type[Exception]:
    """The text of a refusal, or what came instead; an error without a text would take pytest down with it."""
    try:
        try:
            call()
        except HookfuseError as error:
            return str(error)
    except (ValueError, OverflowError) as error:
        return type(error)
    return ""
