"""Two keys, their callers and operators, one clock; and after every step the question whether the rules were kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from hookfuse import Admission, Breakers, Outcome, Override, Policy, Snapshot, State, Transition
from hookfuse.core.outcome import Kind
from hookfuse.core.state import Order
from hookfuse.core.window import Counts
from hookfuse.errors import AlreadySettled, InvalidInput
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from tests.unit.properties.model import Made, Model, Span, counted, ms
from tests.unit.properties.strategies import OUTCOMES

CLOSED, OPEN, HALF_OPEN, DISABLED = State.CLOSED, State.OPEN, State.HALF_OPEN, State.DISABLED

RULES = {"streak", "count", "rate", "latency", "slow"}
FORCES = {"force_open", "force_closed"}
UNFORCES = {"unforce", "override_ended"}
CLEARS = UNFORCES | {"reset", "enable", "reenabled", "probe_succeeded", "sample_recovered"}
LEGAL: dict[tuple[State, State], set[str]] = {
    (CLOSED, CLOSED): FORCES | UNFORCES | {"reset"},
    (CLOSED, OPEN): RULES,
    (CLOSED, HALF_OPEN): UNFORCES,
    (CLOSED, DISABLED): RULES | {"disable"},
    (OPEN, CLOSED): UNFORCES | {"reset"},
    (OPEN, OPEN): FORCES,
    (OPEN, HALF_OPEN): UNFORCES | {"probe_due", "probe"},
    (OPEN, DISABLED): {"disable"},
    (HALF_OPEN, CLOSED): UNFORCES | {"reset", "probe_succeeded", "sample_recovered"},
    (HALF_OPEN, OPEN): RULES | {"probe_failed", "probe_slow"},
    (HALF_OPEN, HALF_OPEN): FORCES | UNFORCES,
    (HALF_OPEN, DISABLED): RULES | {"probe_failed", "probe_slow", "disable"},
    (DISABLED, CLOSED): UNFORCES | {"reset"},
    (DISABLED, HALF_OPEN): UNFORCES | {"enable", "reenabled"},
    (DISABLED, DISABLED): FORCES,
}
"""Which reasons lead from one state to another; what is not here never happens."""

FAR_MS = 100 * 3_600_000


class World:
    """Every method is one step of a history. `calls` are admissions that nobody has settled yet."""

    def __init__(self, a: Policy, b: Policy) -> None:
        self.clock = ManualClock()
        self.store = MemoryStore(clock=self.clock)
        self.policies = {"a": a, "b": b}
        self.breakers = Breakers(self.store, policy_for=self.policies.__getitem__)
        self.announced: list[Transition] = []
        self.breakers.subscribe(self.announced.append)
        self.models = {"a": Model(), "b": Model()}
        self.calls: list[Admission] = []
        self.last = 0
        self.recorded = self.now
        self.policy_changed = self.slipped = False

    @property
    def now(self) -> int:
        return round(self.clock.now() * 1000)

    def admit(self, key: str) -> None:
        """Someone begins a call."""
        self.calls.append(self.ask(key))

    def settle(self, pick: int, name: str, latency: float | None) -> None:
        """Someone, not the first who began, ends a call."""
        if self.calls:
            self.end(self.calls.pop(pick % len(self.calls)), name, latency)

    def call(self, key: str, name: str, latency: float | None) -> None:
        """A call begins and ends."""
        self.end(self.ask(key), name, latency)

    def call_in_time(self, key: str, name: str, latency: float | None) -> None:
        """A refusal says when to come back: too early by a millisecond is refused, in time is not."""
        got = self.ask(key)
        unsure = any(model.unsure for model in self.models.values())
        if not got.allowed and got.retry_at is not None and not unsure:
            until = round(got.retry_at * 1000)
            assert until > self.now
            self.clock.advance((until - 1 - self.now) / 1000)
            assert not self.ask(key).allowed
            self.clock.advance(0.001)
            got = self.ask(key)
            assert got.allowed
        self.end(got, name, latency)

    def order(self, key: str, order: Order, wait: int | None) -> None:
        """An operator says what to do; an override may end after a while."""
        policy, now, seen = self.policies[key], self.now, len(self.announced)
        model = self.models[key].begin(policy, now, self.last)
        forces = order in (Order.FORCE_OPEN, Order.FORCE_CLOSED)
        until = now + wait if forces and wait is not None else None
        give = getattr(self.breakers, order.value)
        if until is not None and until <= now:
            with pytest.raises(InvalidInput, match="in the future"):
                give(key, until=until / 1000)
            self.agree(key, [model], policy)
            return
        returned = give(key, until=None if until is None else until / 1000) if forces else give(key)
        assert returned == (self.announced[-1] if len(self.announced) > seen else None)
        candidates = list(model.order(order, policy, now, order.value, until))
        if now >= self.models[key].forget and not self.announced[seen:]:
            # An order that changes nothing makes no key.
            candidates = [replace(Model(), last=self.last)]
        self.agree(key, candidates, policy)

    def evaluate(self, key: str, tally: Counts | None) -> None:
        """A sample is judged."""
        policy, now, seen = self.policies[key], self.now, len(self.announced)
        model = self.models[key].begin(policy, now, self.last)
        window = Counts() if model.made else self.window(key, policy)
        returned = self.breakers.evaluate(key, tally)
        assert list(returned) == self.announced[seen:]
        candidates = list(model.evaluate(policy, now, tally, window))
        if now >= self.models[key].forget and not returned:
            assert not candidates[0].made
            candidates = [replace(Model(), last=self.last)]
        self.agree(key, candidates, policy)

    def change_policy(self, key: str, policy: Policy) -> None:
        self.policies[key] = policy
        self.policy_changed = True

    def step_to_an_edge(self, pick: int, off: int) -> None:
        """Time moves to an instant that something waits for, or a millisecond to either side."""
        edges = self.edges()
        instant = edges[pick % len(edges)] + off
        if instant > self.now:
            self.clock.advance((instant - self.now) / 1000)

    def step(self, step: int) -> None:
        self.clock.advance(step / 1000)

    def step_back(self, step: int) -> None:
        gone = [key for key, model in self.models.items() if self.now >= model.forget]
        if any(key in self.store._breakers for key in gone):
            # Whether a key comes back with the time at which it was not yet forgotten is nobody's business.
            return
        if any(model.trips and model.closed > self.now - step for model in self.models.values()):
            # Nor is for how long something has been closed that closed in the future.
            return
        self.models.update({key: Model() for key in gone})
        self.clock.advance(-step / 1000)
        self.slipped = True
        for model in self.models.values():
            model.clock_went_back()

    def ask(self, key: str) -> Admission:
        policy, now, size = self.policies[key], self.now, len(self.store)
        unsure = self.models[key].unsure
        before = self.store.inspect(key, policy)
        model = self.models[key].begin(policy, now, self.last)
        got = self.breakers.admit(key)
        answer = model.admit(policy, now, got)
        assert (got.allowed, got.probe, got.would_deny, got.reason) == answer[:4], f"{got}, not {answer}: {model}"
        assert got.retry_at == (None if answer.retry_ms is None else answer.retry_ms / 1000)
        assert got.retry_after == (None if answer.retry_ms is None else (answer.retry_ms - now) / 1000)
        if before.healthy and not unsure:
            assert got.allowed
            assert not got.probe, "a probe of a breaker that was shown as healthy"
        self.agree(key, [model], policy)
        assert got.generation == self.last
        if got.allowed and not got.would_deny:
            assert got.state is model.state
            if not self.slipped and not self.policy_changed:
                assert got.share == pytest.approx(model.share(policy, now))
        if not got.probe and not model.made and not unsure:
            assert len(self.store) <= size
            assert self.store.inspect(key, policy) == before
        return got

    def end(self, call: Admission, name: str, latency: float | None) -> None:
        """Settle an admission, as an outcome or as nothing; doing so again is refused and changes nothing."""
        if not call.allowed:
            self.breakers.release(call)
            return
        if name == "release":
            self.breakers.release(call)
            self.models[call.key].leases.pop(call.token or "", None)
        else:
            self.record(call, OUTCOMES[name], latency)
        before = self.store.inspect(call.key, call.policy)
        with pytest.raises(AlreadySettled):
            self.breakers.release(call)
        with pytest.raises(AlreadySettled):
            self.breakers.record(call, Outcome.FAILURE)
        assert self.store.inspect(call.key, call.policy) == before

    def record(self, call: Admission, outcome: Outcome, latency: float | None) -> None:
        key, policy, now, seen = call.key, call.policy, self.now, len(self.announced)
        latency_ms = None if latency is None else int(latency * 1000 + 0.5)
        unsure = self.models[key].unsure
        before, window = self.store.inspect(key, policy), self.window(key, policy)
        model = self.models[key].begin(policy, now, self.last)
        lapsed, older = bool(model.made), call.generation < model.generation
        counts = outcome.kind in (Kind.OK, Kind.FAILURE) and model.state is CLOSED and not older
        free = model.override is Override.NONE
        returned = self.breakers.record(call, outcome, latency=latency, error="why")
        self.recorded = now
        assert returned == (self.announced[-1] if len(self.announced) > seen else None)
        if call.would_deny or (outcome.kind is Kind.IGNORED and now >= self.models[key].forget):
            assert returned is None
            assert self.store.inspect(key, policy) == before
            return
        self.agree(key, model.record(policy, now, call, outcome, latency_ms, window), policy)
        after = self.store.inspect(key, policy)
        if older and not lapsed and not unsure:
            assert replace(after, totals=before.totals) == before
        if counts and free:
            assert after.counts == counted(window, outcome, latency_ms, policy)
            assert outcome.kind is Kind.OK or after.failures[-1].message == "why"

    def window(self, key: str, policy: Policy) -> Counts:
        """What a call with this policy finds in the window: nothing, if that has buckets of another width."""
        counts = self.store.inspect(key, policy).counts
        breaker = self.store._breakers.get(key)
        return counts if breaker is not None and breaker.window.width_ms == policy.bucket_ms else Counts()

    def agree(self, key: str, candidates: Iterable[Model], policy: Policy) -> None:
        """The store did what one of the candidates says, and announced it once and lawfully."""
        snapshot = self.store.inspect(key, policy)
        fresh = [each for each in self.announced if each.generation > self.last]
        made = [Made(each.before, each.after, each.generation, each.reason, each.override) for each in fresh]
        wrong: list[object] = []
        for model in candidates:
            differences = self.differences(model, snapshot)
            if model.made == made and not differences:
                break
            wrong.append((differences, made, model))
        else:
            raise AssertionError(f"announced or shown, and expected: {wrong}")
        state = self.models[key].state if self.now < self.models[key].forget else CLOSED
        for transition in fresh:
            assert transition.key == key
            assert transition.reason in LEGAL[transition.before, transition.after]
            assert transition.before is state
            assert transition.generation > self.last
            assert transition.at == self.now / 1000
            state, self.last = transition.after, transition.generation
            if transition.reason in CLEARS:
                assert snapshot.counts == Counts()
        self.models[key] = model

    def check(self) -> None:
        """What holds at any time."""
        for key, model in self.models.items():
            snapshot = self.store.inspect(key, self.policies[key])
            expected = model if self.now < model.forget else Model()
            differences = self.differences(expected, snapshot)
            assert not differences, f"(shown, expected) at {self.now}: {differences}, {expected}"
            in_flight = len(expected.live(self.now).keys() - expected.lost)
            assert self.policy_changed or in_flight <= self.policies[key].probes
            breaker = self.store._breakers.get(key)
            assert breaker is None or len(breaker.window.buckets()) <= 11
        numbers = [each.generation for each in self.announced]
        assert numbers == sorted(set(numbers))

    def differences(self, model: Model, snapshot: Snapshot) -> dict[str, tuple[object, object]]:
        """What is shown otherwise than the model has it; takes over what the rules leave open."""
        pairs: dict[str, tuple[object, object]] = {
            "totals": (tuple(snapshot.totals), (model.ok, model.failed, model.slow))
        }
        if not model.lapsed(self.now):
            probe = None if snapshot.probe_at is None else round(snapshot.probe_at * 1000)
            until = None if snapshot.override_until is None else round(snapshot.override_until * 1000)
            if isinstance(model.probe, Span) and probe is not None and model.probe.low <= probe <= model.probe.high:
                model.probe = probe
            if model.unsure and model.state is HALF_OPEN:
                model.probe = probe
            pairs |= {
                "state": (snapshot.state, model.state),
                "override": (snapshot.override, model.override),
                "generation": (snapshot.generation, model.generation),
                "streak": (snapshot.streak, model.streak),
                "trips": (snapshot.trips, model.trips),
                "probe": (probe, model.probe),
                "until": (until, model.override_until),
            }
            if model.override is Override.NONE:
                pairs["successes"] = (snapshot.probe_successes, model.successes)
            pairs["held"] = (snapshot.throttled_until, model.hold / 1000 if model.holds(self.now) else None)
            if not model.lost:
                pairs["probes"] = (snapshot.probes_in_flight, len(model.live(self.now)))
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}

    def edges(self) -> list[int]:
        now = self.now
        edges = {now + 1}
        for key, model in self.models.items():
            policy = self.policies[key]
            edges |= {now + 1_000, model.closed + ms(policy.ramp), model.forget, *model.leases.values(), model.hold}
            edges |= {self.recorded + policy.window_ms, self.recorded + policy.bucket_ms, now + policy.window_ms}
            edges |= {now + ms(policy.cool_off), now + ms(policy.probe_lease), model.closed + policy.window_ms}
            edges |= {model.probe} if isinstance(model.probe, int) else set()
            edges |= {model.override_until} if model.override_until is not None else set()
        return sorted(edge for edge in edges if now < edge < now + FAR_MS)
