"""The circuit breaker: every rule of it, in five verbs.

    closed ──trip──▶ open ──a probe is due and asked for──▶ half_open ──probes succeed──▶ closed
                       ▲                                       │
                       └─────────────a probe fails─────────────┘      the nth trip in a row: disabled

`admit` asks, `record` reports, `release` gives back, `force` obeys an operator, `evaluate` judges a sample.
A `Step` is one verb on one breaker at one instant of the store's clock. It changes the breaker in place and
collects the transitions that it makes; `_change` is the only place that changes a state. This is the
specification: a store runs a step atomically, or translates it and is held to it by tests.

Three ideas carry it:

- *Generations.* Every transition takes the next number of its shard's sequence. An admission carries the
  newest number that its process knew; a report that carries less than the breaker's is older than the last
  transition and may not touch the state.
- *Leases.* A probe is a lease with an owner's token and a deadline. Given back, it is free at once; lost
  with its owner, it is free at the deadline; a result that comes without a live lease is older.
- *One clock.* All instants are the store's. If a breaker changed in the future, that clock went back: then
  whatever waits is due now, because waiting longer than configured is the worse mistake.
"""

from __future__ import annotations

from typing import assert_never

from hookfuse.core.admission import Admission, Denial
from hookfuse.core.outcome import FAILURE, IGNORED, OK, THROTTLED, Failure, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Numbers
from hookfuse.core.state import (
    CLOSED,
    DISABLED,
    FAILURES_KEPT,
    FORCED_CLOSED,
    FORCED_OPEN,
    HALF_OPEN,
    NO_NUMBERS,
    NOT_FORCED,
    OPEN,
    Breaker,
    Order,
    Quick,
    Sequence,
    State,
    Transition,
    explain,
    share,
)
from hookfuse.core.window import FOREVER_MS, Counts

_MOST_GROWTHS = 64


class Step:
    """One verb on one breaker. Afterwards `made` holds its transitions, oldest first."""

    __slots__ = ("breaker", "made", "now_ms", "policy", "sequence")

    def __init__(self, breaker: Breaker, policy: Policy, now_ms: int, sequence: Sequence) -> None:
        self.breaker = breaker
        self.policy = policy
        self.now_ms = now_ms
        self.sequence = sequence
        self.made: list[Transition] = []
        if breaker.changed_ms > now_ms:
            self._go_back()
        if breaker.override_until_ms is not None and now_ms >= breaker.override_until_ms:
            self._unforce("override_ended", "breaker")

    def admit(self, token: str) -> Admission:
        """May this caller call? Writes nothing unless a probe is granted."""
        breaker = self.breaker
        if breaker.override is FORCED_OPEN:
            return self._deny(Denial.FORCED_OPEN, breaker.override_until_ms)
        if breaker.override is FORCED_CLOSED:
            return self._allow()
        state = breaker.state
        if state is CLOSED:
            if self._held():
                return self._deny(Denial.THROTTLED, breaker.hold_ms)
            return self._allow()
        if state is OPEN:
            if not self._probe_due():
                return self._deny(Denial.OPEN, breaker.probe_ms)
            self._half_open("probe_due")
        elif state is DISABLED:
            if not self._probe_due():
                return self._deny(Denial.DISABLED, breaker.probe_ms)
            self._half_open("reenabled")
        elif state is HALF_OPEN:
            self._drop_lost_leases()
            due_ms = breaker.probe_ms or 0
            if len(breaker.leases) >= self.policy.probes:
                due_ms = max(due_ms, sorted(breaker.leases.values())[-self.policy.probes])
            if self.now_ms < due_ms:
                return self._deny(Denial.PROBING, due_ms)
        else:
            assert_never(state)
        return self._grant(token)

    def record(
        self,
        outcome: Outcome,
        *,
        generation: int,
        token: str | None = None,
        latency_ms: int | None = None,
        failure: Failure | None = None,
        draw: float = 0.5,
    ) -> None:
        """Report an outcome. `draw`, in [0, 1), is the random part of a cool-off that it may begin."""
        breaker, policy, kind = self.breaker, self.policy, outcome.kind
        if kind is IGNORED:
            self.release(token)
            return
        slow = kind is not THROTTLED and latency_ms is not None and latency_ms >= policy.slow_ms
        if kind is OK:
            breaker.total_ok += 1
        elif kind is FAILURE:
            breaker.total_failed += 1
        if slow:
            breaker.total_slow += 1

        newest = generation >= breaker.generation and breaker.override is NOT_FORCED
        if newest and breaker.state is CLOSED:
            if kind is THROTTLED:
                self._hold(self.now_ms + outcome.hold_ms)
            else:
                self._count(kind is FAILURE, slow, latency_ms, failure)
                if policy.inline and (policy.judges_latency or breaker.window.has_failed):
                    self._judge(breaker.window.counts(), breaker.streak, draw)
        elif newest and breaker.state is HALF_OPEN:
            self._drop_lost_leases()
            if token is not None and breaker.leases.pop(token, None) is not None:
                if kind is THROTTLED:
                    # Of several probes that were told to wait, the one told to wait the longest is heeded.
                    breaker.probe_ms = max(breaker.probe_ms or 0, self.now_ms + outcome.hold_ms)
                else:
                    self._count(kind is FAILURE, slow, latency_ms, failure)
                    self._judge_probe(outcome, latency_ms, draw)
        self._keep()

    def release(self, token: str | None) -> None:
        """No call was made: a probe's slot is free at once."""
        if token is not None:
            self.breaker.leases.pop(token, None)

    def force(self, order: Order, *, reason: str = "", until_ms: int | None = None, actor: str = "operator") -> bool:
        """Do what an operator says. An order that changes nothing makes no transition.

        False: refused, because it should end in the past. Only the store's clock can tell, so it is told here. Obeyed,
        it would begin and end with the next call, and an override to open would leave a healthy breaker half open.
        """
        breaker = self.breaker
        reason = reason or order.value
        if until_ms is not None and self.now_ms >= until_ms:
            return False
        match order:
            case Order.FORCE_OPEN | Order.FORCE_CLOSED:
                override = FORCED_OPEN if order is Order.FORCE_OPEN else FORCED_CLOSED
                wanted = (override, until_ms, reason)
                if wanted != (breaker.override, breaker.override_until_ms, breaker.override_reason):
                    breaker.override, breaker.override_until_ms, breaker.override_reason = wanted
                    breaker.leases = {}
                    self._change(breaker.state, reason, actor=actor)
            case Order.UNFORCE:
                if breaker.override is not NOT_FORCED:
                    self._unforce(reason, actor)
            case Order.PROBE:
                if breaker.state is OPEN and breaker.override is NOT_FORCED:
                    self._half_open(reason, actor)
            case Order.DISABLE:
                if breaker.state is not DISABLED:
                    breaker.reason, breaker.numbers = reason, NO_NUMBERS
                    self._shut(DISABLED, self.policy.reenable_ms, actor=actor)
            case Order.ENABLE:
                if breaker.state is DISABLED:
                    self._half_open(reason, actor)
            case Order.RESET:
                seen = breaker.state is not CLOSED or breaker.override is not NOT_FORCED or self._held()
                breaker.trips = 0
                breaker.failures = ()
                self._clear_override()
                self._clean()
                if seen:
                    self._change(CLOSED, reason, actor=actor)
            case _:
                assert_never(order)
        self._keep()
        return True

    def evaluate(self, tally: Counts | None = None, *, generation: int | None = None, draw: float = 0.5) -> None:
        """Judge a sample: `tally` counts the window, but nothing before the last transition.

        Without a tally the breaker's own counts are judged. `generation` is the breaker's when the sample was taken:
        one that has changed since is not judged by it.
        """
        breaker = self.breaker
        if breaker.override is not NOT_FORCED:
            return
        if generation is None or generation >= breaker.generation:
            self._judge_sample(tally, draw)
        if breaker.state is OPEN and self._probe_due():
            self._half_open("probe_due")
        elif breaker.state is DISABLED and self._probe_due():
            self._half_open("reenabled")

    def adopt(self, refusal: Admission) -> None:
        """Begin where a refusal of another store left off; what was half open there may be probed here at once."""
        breaker = self.breaker
        until_ms = None if refusal.wait_ms is None else self.now_ms + refusal.wait_ms
        breaker.reason = refusal.why
        breaker.generation = self.sequence.take(self.now_ms)
        breaker.changed_ms = self.now_ms
        if refusal.reason is Denial.FORCED_OPEN:
            breaker.override, breaker.override_until_ms = FORCED_OPEN, until_ms
            breaker.override_reason = refusal.why
        elif refusal.reason is Denial.THROTTLED:
            self._hold(until_ms or 0)
        else:
            breaker.state = DISABLED if refusal.reason is Denial.DISABLED else OPEN
            breaker.opened_ms, breaker.probe_ms = self.now_ms, until_ms
        self._keep()

    def _go_back(self) -> None:
        """The store's clock went back behind the last change: what waits is due now, and no lease is known to live."""
        breaker = self.breaker
        breaker.changed_ms = self.now_ms
        breaker.leases = {}
        if breaker.opened_ms is not None:
            breaker.opened_ms = min(breaker.opened_ms, self.now_ms)
        if breaker.probe_ms is not None:
            breaker.probe_ms = min(breaker.probe_ms, self.now_ms)

    def _held(self) -> bool:
        # One that is to begin in the future is from before the clock went back.
        return self.breaker.held_ms <= self.now_ms < self.breaker.hold_ms

    def _hold(self, until_ms: int) -> None:
        breaker = self.breaker
        if not self._held() or until_ms > breaker.hold_ms:
            breaker.held_ms, breaker.hold_ms = self.now_ms, until_ms

    def _allow(self) -> Admission:
        breaker, policy = self.breaker, self.policy
        admission = Admission(breaker.key, policy, self.sequence.last)
        admission.at_ms = self.now_ms
        admission.state = breaker.state
        admission.share = share(breaker, policy, self.now_ms)
        return admission

    def _grant(self, token: str) -> Admission:
        self.breaker.leases[token] = self.now_ms + self.policy.probe_lease_ms
        self._keep()
        admission = self._allow()
        admission.probe = True
        admission.token = token
        return admission

    def _deny(self, denial: Denial, until_ms: int | None) -> Admission:
        breaker = self.breaker
        admission = Admission(breaker.key, self.policy, self.sequence.last)
        admission.at_ms = self.now_ms
        admission.state = breaker.state
        if denial is Denial.FORCED_OPEN:
            admission.why = breaker.override_reason
        elif not self.policy.enforced:
            admission.would_deny = True
            return admission
        else:
            admission.why = explain(breaker.reason, breaker.numbers)
        admission.allowed = False
        admission.reason = denial
        admission.wait_ms = None if until_ms is None else until_ms - self.now_ms
        return admission

    def _count(self, failed: bool, slow: bool, latency_ms: int | None, failure: Failure | None) -> None:
        breaker, window, now_ms = self.breaker, self.breaker.window, self.now_ms
        window.slide(now_ms, self.policy.bucket_ms, self.policy.window_ms)
        window.add(now_ms, failed=failed, slow=slow, latency_ms=latency_ms)
        breaker.streak = breaker.streak + 1 if failed else 0
        if failed and failure is not None:
            breaker.failures = (*breaker.failures[1 - FAILURES_KEPT :], failure)

    def _judge(self, counts: Counts, streak: int, draw: float) -> None:
        for rule in self.policy.rules:
            numbers = rule.breached(counts, streak)
            if numbers is not None:
                self._trip(rule.name, numbers, draw)
                return

    def _judge_sample(self, tally: Counts | None, draw: float) -> None:
        breaker, policy = self.breaker, self.policy
        if breaker.state is HALF_OPEN:
            sample = tally or Counts(ok=breaker.probe_successes)
            if policy.close_rate is not None and sample.ok and sample.ok / sample.calls >= policy.close_rate:
                numbers = {"ok": sample.ok, "calls": sample.calls, "limit": policy.close_rate}
                self._close("sample_recovered", numbers)
            elif sample.calls:
                # The streak that opened it is over.
                self._judge(sample, _streak_of(sample), draw)
        elif breaker.state is CLOSED:
            own = breaker.window.counts_at(self.now_ms, policy.bucket_ms, policy.window_ms)
            # A sample knows of failures that a store which lost its data does not.
            self._judge(tally or own, max(breaker.streak, _streak_of(tally or Counts())), draw)

    def _judge_probe(self, outcome: Outcome, latency_ms: int | None, draw: float) -> None:
        policy = self.policy
        if outcome.kind is FAILURE:
            self._trip("probe_failed", NO_NUMBERS, draw)
        elif latency_ms is not None and latency_ms >= policy.limit_ms:
            # As slow as what opened it: closing now would only open it again.
            self._trip("probe_slow", {"latency": latency_ms / 1000, "limit": policy.limit_ms / 1000}, draw)
        else:
            self.breaker.probe_successes += 1
            if self.breaker.probe_successes >= policy.close_after:
                self._close("probe_succeeded", NO_NUMBERS)

    def _trip(self, reason: str, numbers: Numbers, draw: float) -> None:
        breaker, policy = self.breaker, self.policy
        was_healthy = breaker.state is CLOSED and self.now_ms - breaker.changed_ms >= policy.healthy_ms
        breaker.trips = 1 if was_healthy else breaker.trips + 1
        breaker.reason, breaker.numbers = reason, numbers
        if policy.disable_after is not None and breaker.trips >= policy.disable_after:
            self._shut(DISABLED, policy.reenable_ms)
        else:
            self._shut(OPEN, self._cool_off_ms(draw))

    def _cool_off_ms(self, draw: float) -> int:
        policy = self.policy
        grown = policy.cool_off_ms * policy.cool_off_factor ** min(self.breaker.trips - 1, _MOST_GROWTHS)
        return int(min(grown, policy.cool_off_max_ms) * (1 + policy.jitter * (2 * draw - 1)))

    def _shut(self, after: State, for_ms: int | None, *, actor: str = "breaker") -> None:
        breaker = self.breaker
        breaker.opened_ms = self.now_ms
        breaker.probe_ms = None if for_ms is None else self.now_ms + for_ms
        breaker.leases = {}
        breaker.probe_successes = 0
        breaker.held_ms = breaker.hold_ms = 0
        self._change(after, breaker.reason, breaker.numbers, actor=actor)

    def _half_open(self, reason: str, actor: str = "breaker") -> None:
        breaker = self.breaker
        if breaker.state is DISABLED:
            breaker.trips = breaker.streak = 0
            breaker.window.clear()
        breaker.probe_ms = self.now_ms
        breaker.leases = {}
        breaker.probe_successes = 0
        self._change(HALF_OPEN, reason, actor=actor)

    def _close(self, reason: str, numbers: Numbers) -> None:
        self._clean()
        self._change(CLOSED, reason, numbers)

    def _unforce(self, reason: str, actor: str) -> None:
        was_open = self.breaker.override is FORCED_OPEN
        self._clear_override()
        self._clean()
        if was_open:
            self.breaker.opened_ms = self.now_ms
            self._half_open(reason, actor)
        else:
            self._change(CLOSED, reason, actor=actor)

    def _clean(self) -> None:
        breaker = self.breaker
        breaker.streak = 0
        breaker.window.clear()
        breaker.opened_ms = breaker.probe_ms = None
        breaker.leases = {}
        breaker.probe_successes = 0
        breaker.held_ms = breaker.hold_ms = 0
        breaker.reason, breaker.numbers = "", NO_NUMBERS

    def _clear_override(self) -> None:
        self.breaker.override = NOT_FORCED
        self.breaker.override_until_ms = None
        self.breaker.override_reason = ""

    def _probe_due(self) -> bool:
        breaker = self.breaker
        return breaker.probe_ms is not None and self.now_ms >= breaker.probe_ms

    def _drop_lost_leases(self) -> None:
        breaker, now_ms = self.breaker, self.now_ms
        if breaker.leases:
            breaker.leases = {token: end for token, end in breaker.leases.items() if now_ms < end}

    def _keep(self) -> None:
        """Say until when the store must keep this breaker, and what the hot path may skip."""
        breaker, policy, now_ms = self.breaker, self.policy, self.now_ms
        breaker.touched = 0.0
        if breaker.hold_ms and not self._held():
            # Forgotten, so that a clock that goes back later does not bring it back.
            breaker.held_ms = breaker.hold_ms = 0
        closed = breaker.state is CLOSED
        free = closed and breaker.override is NOT_FORCED
        if breaker.override is not NOT_FORCED or breaker.state is DISABLED:
            breaker.expires_ms = FOREVER_MS
        elif not closed:
            breaker.expires_ms = max(now_ms + policy.forget_ms, breaker.probe_ms or 0, *breaker.leases.values())
        elif breaker.streak:
            breaker.expires_ms = now_ms + policy.forget_ms
        else:
            breaker.kept_ms = policy.remember_ms if breaker.trips else policy.quiet_ms
            breaker.expires_ms = max(now_ms + breaker.kept_ms, breaker.hold_ms)
        grown = not policy.ramp_ms or share(breaker, policy, now_ms) == 1
        breaker.plain = free and grown and not breaker.hold_ms
        breaker.quick = self._quick() if breaker.plain and not breaker.streak else None
        breaker.shut = None
        if breaker.state is OPEN and breaker.override is NOT_FORCED and breaker.probe_ms is not None:
            why = explain(breaker.reason, breaker.numbers)
            breaker.shut = (breaker.changed_ms / 1000, breaker.probe_ms / 1000, why)

    def _quick(self) -> Quick | None:
        """A success needs no judging while it can only lower a failure rate that was just found low enough."""
        policy, window = self.policy, self.breaker.window
        until_ms = window.until_ms
        if policy.judges_latency or not until_ms:
            return None
        if window.has_failed:
            if policy.inline and window.counts().calls < policy.most_min_calls:
                return None
            until_ms = min(until_ms, window.oldest_ms + policy.window_ms)
        # By then at the latest a step must find out whether the breaker was forgotten in between.
        until_ms = min(until_ms, self.now_ms + self.breaker.kept_ms)
        return (policy, window.start_ms / 1000, until_ms / 1000)

    def _change(self, after: State, reason: str, numbers: Numbers = NO_NUMBERS, *, actor: str = "breaker") -> None:
        breaker = self.breaker
        before, breaker.state = breaker.state, after
        breaker.generation = self.sequence.take(self.now_ms)
        if after is not before:
            breaker.changed_ms = self.now_ms
        at = self.now_ms / 1000
        self.made.append(
            Transition(breaker.key, before, after, breaker.generation, at, reason, numbers, actor, breaker.override)
        )
        self._keep()


def _streak_of(sample: Counts) -> int:
    """Failures in a row, which a sample knows only if nothing succeeded."""
    return 0 if sample.ok else sample.failed
