"""The specification as a sequential object: one breaker, its clock, and the admissions that are under way.

It takes the calls of a history one at a time, runs each through the machine, and gives a new model, so that a search
can go back to an older one. Nothing that an implementation made up enters it: a report carries the generation and the
token that the *model* gave to the admission of that name.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable
from math import inf
from typing import NamedTuple, TypeAlias

from hookfuse import Policy, Snapshot, State, Streak, Transition
from hookfuse.core.admission import Admission
from hookfuse.core.machine import Step
from hookfuse.core.outcome import FAILURE, Failure
from hookfuse.core.state import Breaker, Sequence, snapshot
from hookfuse.core.window import Window
from tests.differential.linear.history import Admit, Advance, Call, Inspect, Record, Release

COOL_OFF_MS = 1_000
LEASE_MS = 2_000

# Forgotten far later than any history lasts, so that the model need not forget. No jitter: a trip draws nothing.
POLICY = Policy(
    trip=Streak(3), window=3600, cool_off=COOL_OFF_MS / 1000, probes=1, probe_lease=LEASE_MS / 1000, close_after=1
)

_ANSWER = (
    "key",
    "allowed",
    "probe",
    "reason",
    "state",
    "generation",
    "degraded",
    "share",
    "would_deny",
    "at_ms",
    "wait_ms",
    "why",
)

View: TypeAlias = Callable[[object], object]
"""What of a result is compared."""


def everything(result: object) -> object:
    """All that a caller can see; a token is the implementation's own."""
    return [getattr(result, name) for name in _ANSWER] if isinstance(result, Admission) else result


def passing(result: object) -> object:
    """Who may pass and in what state the breaker is: what every circuit breaker can say."""
    match result:
        case Admission():
            return result.allowed
        case Snapshot():
            return result.state
        case bool() | State():
            return result
        case _:
            return None


class Marks(NamedTuple):
    """What only grows: the clock, the newest generation, and the totals."""

    now_ms: float
    generation: float
    ok: float
    failed: float


_NEVER = Marks(inf, inf, inf, inf)


def latest(result: object) -> Marks:
    """How far a model can be that is still to give this result."""
    match result:
        case Admission():
            return _NEVER._replace(now_ms=result.at_ms, generation=result.generation)
        case Transition():
            return _NEVER._replace(generation=result.generation - 1)
        case Snapshot():
            return _NEVER._replace(ok=result.totals.ok, failed=result.totals.failed)
        case _:
            return _NEVER


class Ticket(NamedTuple):
    """What an admission gave its caller to report with."""

    generation: int
    token: str | None


class Model:
    """A breaker at an instant. Never changed: `apply` makes another."""

    __slots__ = ("_breaker", "_last", "_now_ms", "_tickets")

    def __init__(self, key: str, now_ms: int, last: int = 0) -> None:
        self._breaker = Breaker(key, POLICY.bucket_ms)
        self._now_ms = now_ms
        self._last = last
        self._tickets: dict[str, Ticket] = {}

    def apply(self, call: Call) -> tuple[Model, object]:
        """The model after the call, and the call's result."""
        after = self._twin()
        return after, after._take(call)

    def identity(self) -> Hashable:
        """Equal for models that answer everything alike, from now on."""
        return self._facts(), frozenset(self._tickets.items())

    def marks(self) -> Marks:
        return Marks(self._now_ms, self._last, self._breaker.total_ok, self._breaker.total_failed)

    def kind(self, call: Call) -> Hashable:
        """Equal for reports that do the same to this model, and to every later one; None if nothing is known."""
        return (call.outcome, self._tickets.get(call.name)) if isinstance(call, Record) else None

    def same_breaker(self, other: Model) -> bool:
        return self._facts() == other._facts()

    def same_tickets(self, other: Model) -> bool:
        return self._tickets == other._tickets

    def _facts(self) -> Hashable:
        breaker = self._breaker
        return (
            self._now_ms,
            self._last,
            breaker.state,
            breaker.generation,
            breaker.changed_ms,
            breaker.streak,
            tuple(breaker.window.buckets()),
            breaker.trips,
            breaker.opened_ms,
            breaker.probe_ms,
            frozenset(breaker.leases.items()),
            breaker.probe_successes,
            breaker.held_ms,
            breaker.hold_ms,
            breaker.reason,
            tuple(breaker.numbers.items()),
            breaker.failures,
            breaker.total_ok,
            breaker.total_failed,
        )

    def _twin(self) -> Model:
        """A copy that shares nothing that a step changes."""
        twin = copy.copy(self)
        twin._tickets = dict(self._tickets)
        twin._breaker = copy.copy(self._breaker)
        twin._breaker.leases = dict(self._breaker.leases)
        twin._breaker.window = Window.load(self._breaker.window.width_ms, self._breaker.window.buckets())
        return twin

    def _take(self, call: Call) -> object:
        sequence = Sequence(self._last)
        step = Step(self._breaker, POLICY, self._now_ms, sequence)
        result: object = None
        match call:
            case Admit(name):
                result = admission = step.admit(name)
                if admission.allowed:
                    self._tickets[name] = Ticket(admission.generation, admission.token)
            case Record(name, outcome):
                ticket = self._tickets.pop(name)
                failure = Failure.of(None, self._now_ms / 1000) if outcome.kind is FAILURE else None
                step.record(outcome, generation=ticket.generation, token=ticket.token, failure=failure)
                result = step.made[-1] if step.made else None
            case Release(name):
                step.release(self._tickets.pop(name).token)
            case Inspect():
                result = snapshot(self._breaker, POLICY, self._now_ms)
            case Advance(ms):
                self._now_ms += ms
        self._last = sequence.last
        return result
