"""A second, slower telling of the breaker's rules, to hold the machine to.

It keeps no window of its own: what a window counts is tested elsewhere, and comes in as an argument. Where the rules
leave something open (leases and holds of a clock that went back) it says so, and the test takes either answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Self

from hookfuse import Admission, Count, Latency, Outcome, Override, Policy, Rate, Slow, State, Streak
from hookfuse.core.admission import Denial
from hookfuse.core.bounds import Duration
from hookfuse.core.outcome import Kind
from hookfuse.core.rules import Rule
from hookfuse.core.state import Order
from hookfuse.core.window import Counts

ALWAYS = -(1 << 60)
NEVER = 1 << 60


class Made(NamedTuple):
    """A transition, as far as the rules foretell it."""

    before: State
    after: State
    generation: int
    reason: str
    override: Override


class Answer(NamedTuple):
    """An admission, as far as the rules foretell it."""

    allowed: bool
    probe: bool = False
    would_deny: bool = False
    reason: Denial | None = None
    retry_ms: int | None = None


class Span(NamedTuple):
    """An instant that jitter leaves open."""

    low: int
    high: int


def ms(duration: Duration) -> int:
    return round((duration.total_seconds() if isinstance(duration, timedelta) else duration) * 1000)


def longest_ms(policy: Policy) -> int:
    """The longest cool-off, jitter aside."""
    return max(3_600_000, ms(policy.cool_off)) if policy.cool_off_max is None else ms(policy.cool_off_max)


def counted(counts: Counts, outcome: Outcome, latency_ms: int | None, policy: Policy) -> Counts:
    """The counts after one more outcome."""
    failed = outcome.kind is Kind.FAILURE
    timed = latency_ms is not None
    slow = is_slow(latency_ms, policy)
    more = (not failed, failed, slow, timed, latency_ms or 0)
    return Counts(*(old + new for old, new in zip(counts, more, strict=True)))


def is_slow(latency_ms: int | None, policy: Policy) -> bool:
    over = [ms(rule.over) for rule in policy.rules if isinstance(rule, Slow)]
    return latency_ms is not None and bool(over) and latency_ms >= over[0]


def breached(rule: Rule, counts: Counts, streak: int) -> bool:
    match rule:
        case Streak(n):
            return streak >= n
        case Count(n, clears):
            return (min(counts.failed, streak) if clears else counts.failed) >= n
        case Rate(share, least):
            return counts.calls >= least and counts.failed / counts.calls >= share
        case Latency(mean, least):
            return counts.timed >= least and counts.latency_ms / counts.timed >= ms(mean)
        case Slow(share, _, least):
            return counts.timed >= least and counts.slow / counts.timed >= share
    raise AssertionError(rule)


@dataclass
class Model:
    """What the rules say about one key. All instants in milliseconds."""

    state: State = State.CLOSED
    override: Override = Override.NONE
    override_until: int | None = None
    override_reason: str = ""
    generation: int = 0
    streak: int = 0
    trips: int = 0
    successes: int = 0
    opened: int = ALWAYS
    closed: int = ALWAYS
    probe: int | Span | None = None
    leases: dict[str, int] = field(default_factory=dict)
    held: int = 0
    hold: int = 0
    """From when and until when a Retry-After holds it."""
    ok: int = 0
    failed: int = 0
    slow: int = 0
    forget: int = ALWAYS
    """When it is forgotten, if nothing more happens."""
    lost: set[str] = field(default_factory=set)
    """Leases that a clock which went back may have ended."""
    unsure: bool = False
    """The clock went back: what waits may be due."""
    made: list[Made] = field(default_factory=list)
    last: int = 0
    """The newest generation of the store."""

    def begin(self, policy: Policy, now: int, last: int) -> Self:
        """This key at the beginning of a verb."""
        model = deepcopy(self) if now < self.forget else type(self)()
        model.made, model.last = [], last
        if model.opened > now:
            # The clock went back: nothing waits longer than it was told to.
            model.opened = now
            model.probe = min(model.probe, now) if isinstance(model.probe, int) else model.probe
        model.closed = min(model.closed, now)
        if model.lapsed(now):
            model._unforce("override_ended", policy, now)
        return model

    def lapsed(self, now: int) -> bool:
        """Whether an override has run out that no verb has yet taken away."""
        return self.override_until is not None and now >= self.override_until

    def live(self, now: int) -> dict[str, int]:
        """The leases of probes that are in flight."""
        return {token: end for token, end in self.leases.items() if now < end}

    def holds(self, now: int) -> bool:
        return self.held <= now < self.hold

    def clock_went_back(self) -> None:
        self.lost |= self.leases.keys()
        self.unsure = True

    def admit(self, policy: Policy, now: int, got: Admission) -> Answer:
        """The answer to expect; `got` settles what the rules leave open, and names the token."""
        if self.override is Override.OPEN:
            return Answer(False, reason=Denial.FORCED_OPEN, retry_ms=self.override_until)
        if self.override is Override.CLOSED:
            return Answer(True)
        denied = Answer(True, would_deny=True)
        match self.state:
            case State.CLOSED:
                if not self.holds(now):
                    return Answer(True)
                return denied if policy.mode == "shadow" else Answer(False, False, False, Denial.THROTTLED, self.hold)
            case State.OPEN | State.DISABLED:
                if not self._due(now):
                    reason = Denial.OPEN if self.state is State.OPEN else Denial.DISABLED
                    assert not isinstance(self.probe, Span)
                    return denied if policy.mode == "shadow" else Answer(False, reason=reason, retry_ms=self.probe)
                self._half_open("probe_due" if self.state is State.OPEN else "reenabled", policy, now)
            case State.HALF_OPEN:
                assert isinstance(self.probe, int)
                live = self.live(now)
                refused = now < self.probe or len(live) >= policy.probes
                if self.unsure and len(live.keys() - self.lost) < policy.probes:
                    refused = not got.probe
                if refused:
                    retry = max(self.probe, self._free_slot(policy, now))
                    if self.unsure and got.wait_ms is not None:
                        retry = now + got.wait_ms
                    return denied if policy.mode == "shadow" else Answer(False, reason=Denial.PROBING, retry_ms=retry)
        assert got.token is not None, f"refused, though a probe is due: {got}"
        self.leases[got.token] = now + ms(policy.probe_lease)
        self._touch(policy, now)
        return Answer(True, probe=True)

    def record(
        self, policy: Policy, now: int, admission: Admission, outcome: Outcome, latency_ms: int | None, window: Counts
    ) -> Iterator[Self]:
        """What may come of a report; more than one where the rules leave it open. `window`: the counts before."""
        kind, token = outcome.kind, admission.token
        if kind is Kind.IGNORED:
            self.leases.pop(token or "", None)
            yield self
            return
        self.ok += kind is Kind.OK
        self.failed += kind is Kind.FAILURE
        self.slow += kind is not Kind.THROTTLED and is_slow(latency_ms, policy)
        self._touch(policy, now)
        if admission.generation < self.generation or self.override is not Override.NONE:
            yield self
        elif self.state is State.CLOSED:
            if kind is Kind.THROTTLED:
                if not self.holds(now) or now + outcome.hold_ms > self.hold:
                    self.held, self.hold = now, now + outcome.hold_ms
                self._touch(policy, now)
                yield self
                return
            self.streak = self.streak + 1 if kind is Kind.FAILURE else 0
            self._touch(policy, now)
            if policy.evaluate == "inline":
                self._judge(policy, now, counted(window, outcome, latency_ms, policy), self.streak)
            yield self
        elif self.state is State.HALF_OPEN:
            live = token in self.live(now)
            if live and token in self.lost:
                without = deepcopy(self)
                without.leases.pop(token or "", None)
                yield without
            if live:
                self.leases.pop(token or "", None)
                self._judge_probe(policy, now, outcome, latency_ms)
            yield self
        else:
            yield self

    def order(self, order: Order, policy: Policy, now: int, reason: str, until: int | None) -> Iterator[Self]:
        self._touch(policy, now)
        match order:
            case Order.FORCE_OPEN | Order.FORCE_CLOSED:
                override = Override.OPEN if order is Order.FORCE_OPEN else Override.CLOSED
                if (override, until, reason) != (self.override, self.override_until, self.override_reason):
                    self.override, self.override_until, self.override_reason = override, until, reason
                    self.leases = {}
                    self._change(self.state, reason, policy, now)
            case Order.UNFORCE:
                if self.override is not Override.NONE:
                    self._unforce(reason, policy, now)
            case Order.PROBE:
                if self.state is State.OPEN and self.override is Override.NONE:
                    self._half_open(reason, policy, now)
            case Order.DISABLE:
                if self.state is not State.DISABLED:
                    self._shut(State.DISABLED, reason, policy, now)
            case Order.ENABLE:
                if self.state is State.DISABLED:
                    self._half_open(reason, policy, now)
            case Order.RESET:
                plain = self.state is State.CLOSED and self.override is Override.NONE
                held = self.holds(now)
                self.trips = 0
                self._clean()
                self.override, self.override_until, self.override_reason = Override.NONE, None, ""
                self._touch(policy, now)
                if not plain or held:
                    self._change(State.CLOSED, reason, policy, now)
        self._touch(policy, now)
        yield self

    def evaluate(self, policy: Policy, now: int, tally: Counts | None, window: Counts) -> Iterator[Self]:
        """What may come of a sample."""
        if self.override is not Override.NONE:
            yield self
            return
        if self.state is State.HALF_OPEN:
            sample = tally or Counts(ok=self.successes)
            rate = policy.close_rate
            if rate is not None and sample.ok and sample.ok / sample.calls >= rate:
                self._clean()
                self._change(State.CLOSED, "sample_recovered", policy, now)
            elif sample.calls:
                # The streak that opened it is over; that of a sample is known only if nothing succeeded.
                self._judge(policy, now, sample, 0 if sample.ok else sample.failed)
        elif self.state is State.CLOSED:
            # A tally without a success is of failures in a row, whatever the store remembers.
            proven = tally.failed if tally is not None and not tally.ok else 0
            self._judge(policy, now, tally or window, max(self.streak, proven))
        if isinstance(self.probe, Span) and self.probe.low <= now:
            # Only a cool-off of about no time can be over in the step that began it.
            yield deepcopy(self)
        if self.state in (State.OPEN, State.DISABLED) and self._due(now):
            self._half_open("probe_due" if self.state is State.OPEN else "reenabled", policy, now)
        yield self

    def share(self, policy: Policy, now: int) -> float:
        ramp, since = ms(policy.ramp), now - self.closed
        in_ramp = self.state is State.CLOSED and 0 <= since < ramp
        return 0.1 + 0.9 * since / ramp if in_ramp else 1.0

    def _judge(self, policy: Policy, now: int, counts: Counts, streak: int) -> None:
        for rule in policy.rules:
            if breached(rule, counts, streak):
                self._trip(rule.name, policy, now)
                return

    def _judge_probe(self, policy: Policy, now: int, outcome: Outcome, latency_ms: int | None) -> None:
        limits = [rule.over for rule in policy.rules if isinstance(rule, Slow)]
        limits += [rule.mean for rule in policy.rules if isinstance(rule, Latency)]
        if outcome.kind is Kind.THROTTLED:
            assert isinstance(self.probe, int)
            self.probe = max(self.probe, now + outcome.hold_ms)
            self._touch(policy, now)
            return
        self.streak = self.streak + 1 if outcome.kind is Kind.FAILURE else 0
        if outcome.kind is Kind.FAILURE:
            self._trip("probe_failed", policy, now)
        elif limits and latency_ms is not None and latency_ms >= min(limits) * 1000:
            self._trip("probe_slow", policy, now)
        else:
            self.successes += 1
            if self.successes >= policy.close_after:
                self._clean()
                self._change(State.CLOSED, "probe_succeeded", policy, now)

    def _trip(self, reason: str, policy: Policy, now: int) -> None:
        whole_window = longest_ms(policy) if policy.window is None else ms(policy.window)
        healthy = self.state is State.CLOSED and now - self.closed >= whole_window
        self.trips = 1 if healthy else self.trips + 1
        disabled = policy.disable_after is not None and self.trips >= policy.disable_after
        self._shut(State.DISABLED if disabled else State.OPEN, reason, policy, now)

    def _shut(self, after: State, reason: str, policy: Policy, now: int) -> None:
        self.opened, self.leases, self.successes, self.hold = now, {}, 0, 0
        if after is State.OPEN:
            wait = min(ms(policy.cool_off) * policy.cool_off_factor ** (self.trips - 1), longest_ms(policy))
            self.probe = Span(now + int(wait * (1 - policy.jitter)) - 1, now + int(wait * (1 + policy.jitter)) + 1)
        else:
            self.probe = None if policy.reenable_after is None else now + ms(policy.reenable_after)
        self._change(after, reason, policy, now)

    def _half_open(self, reason: str, policy: Policy, now: int) -> None:
        if self.state is State.DISABLED:
            self.trips = self.streak = 0
        self.probe, self.leases, self.successes = now, {}, 0
        self._change(State.HALF_OPEN, reason, policy, now)

    def _unforce(self, reason: str, policy: Policy, now: int) -> None:
        was_open = self.override is Override.OPEN
        self.override, self.override_until, self.override_reason = Override.NONE, None, ""
        self._clean()
        if was_open:
            self._half_open(reason, policy, now)
        else:
            self._change(State.CLOSED, reason, policy, now)

    def _clean(self) -> None:
        self.streak = self.successes = self.hold = 0
        self.leases, self.probe = {}, None

    def _change(self, after: State, reason: str, policy: Policy, now: int) -> None:
        before, self.state = self.state, after
        self.generation = self.last = max(self.last + 1, now)
        if after is not before:
            self.closed = now if after is State.CLOSED else self.closed
            self.unsure = False
        self.lost = set()
        self.made.append(Made(before, after, self.generation, reason, self.override))
        self._touch(policy, now)

    def _due(self, now: int) -> bool:
        if self.probe is None:
            return False
        return now >= (self.probe.low if isinstance(self.probe, Span) else self.probe)

    def _free_slot(self, policy: Policy, now: int) -> int:
        """When, by their deadlines, fewer than `probes` leases are left: a new policy may allow fewer."""
        ends = sorted(self.live(now).values(), reverse=True)
        return ends[policy.probes - 1] if len(ends) >= policy.probes else now

    def _touch(self, policy: Policy, now: int) -> None:
        """Something happened: it is kept for longer, and a hold that is over is forgotten."""
        if not self.holds(now):
            self.hold = 0
        forget, longest = ms(policy.forget_after), longest_ms(policy)
        if self.override is not Override.NONE or self.state is State.DISABLED:
            self.forget = NEVER
        elif self.state is not State.CLOSED or self.streak:
            self.forget = now + forget
        elif self.trips:
            window = 0 if policy.window is None else ms(policy.window)
            self.forget = max(now + 2 * max(window, longest), self.hold)
        else:
            quiet = forget if policy.window is None else ms(policy.window) + -(-ms(policy.window) // 10)
            self.forget = max(now + quiet, self.hold)
