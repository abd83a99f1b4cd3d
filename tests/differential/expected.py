"""What the machine says to a history: its decisions, its breakers, and what it would have others know."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hookfuse.core.admission import Admission
from hookfuse.core.machine import Step
from hookfuse.core.outcome import FAILURE, IGNORED, THROTTLED, Failure, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import CLOSED, NOT_FORCED, Breaker, Sequence, Transition
from hookfuse.core.window import Window
from hookfuse.stores.redis.wire import News
from tests.differential.history import KEYS, Action, Admit, Evaluate, Force, Moment, Oks, Record, Release

_COMPARED = (
    "key",
    "allowed",
    "probe",
    "reason",
    "state",
    "generation",
    "share",
    "would_deny",
    "token",
    "at_ms",
    "wait_ms",
    "why",
)


@dataclass(frozen=True)
class Decision:
    """The answer to one action."""

    transitions: tuple[Transition, ...] = ()
    news: News | None = None
    answer: dict[str, object] = field(default_factory=dict)


class Event(NamedTuple):
    """An entry of the stream: a transition, or a hold without one."""

    position: int
    news: News
    transition: Transition | None


@dataclass(frozen=True)
class Seen:
    """What the server must hold after one call."""

    forgotten: tuple[str, ...]
    decisions: tuple[Decision, ...]
    breakers: dict[str, Breaker]
    listed: dict[str, News]


def read_answer(admission: Admission) -> dict[str, object]:
    return {name: getattr(admission, name) for name in _COMPARED}


def twin(breaker: Breaker) -> Breaker:
    """A copy that shares nothing that a step changes."""
    other = copy.copy(breaker)
    other.leases = dict(breaker.leases)
    other.window = Window.load(breaker.window.width_ms, breaker.window.buckets())
    return other


def spread(action: Oks) -> Iterator[Record]:
    """Buffered successes as the single ones that they stand for: equal latencies, what is left over in the last."""
    each = left = action.latency_ms
    if action.latency_ms is not None:
        each = action.latency_ms // action.times
        left = action.latency_ms - each * (action.times - 1)
    for nth in range(1, action.times + 1):
        latency_ms = left if nth == action.times else each
        yield Record(action.key, Outcome.OK, action.generation, latency_ms=latency_ms, draw=action.draw)


class Machine:
    """The breakers of one shard as the machine has them, kept the way a store must keep them."""

    def __init__(self) -> None:
        self.breakers: dict[str, Breaker] = {}
        self.sequence = Sequence()
        self.listed: dict[str, News] = {}
        self.stream: list[Event] = []
        self._announced: list[tuple[int, str, Transition | None]] = []
        self._kept: set[str] = set()

    def run(self, moment: Moment) -> Seen:
        forgotten = self.sweep(moment.now_ms) if moment.swept else ()
        decisions = tuple(self.apply(action, moment.policies[action.key], moment.now_ms) for action in moment.actions)
        self._tell(moment)
        return Seen(forgotten, decisions, dict(self.breakers), dict(self.listed))

    def apply(self, action: Action, policy: Policy, now_ms: int) -> Decision:
        if isinstance(action, Oks):
            singly = [self.apply(record, policy, now_ms) for record in spread(action)]
            news = [decision.news for decision in singly if decision.news]
            transitions = tuple(made for decision in singly for made in decision.transitions)
            return Decision(transitions, news[-1] if news else None)
        known = self.find(action.key, now_ms)
        if isinstance(action, Release):
            if known is not None:
                self.breakers[action.key] = known = twin(known)
                known.leases.pop(action.token, None)
            return Decision()
        ignored = isinstance(action, Record) and action.outcome.kind is IGNORED
        if ignored and known is None:
            return Decision()
        # A step on a copy: one that writes nothing leaves nothing, not even a window slid or a lost lease dropped.
        step = Step(twin(known) if known else Breaker(action.key, policy.bucket_ms), policy, now_ms, self.sequence)
        answer, kept = self._take(step, action, known is not None)
        kept = kept or bool(step.made)
        if kept or (ignored and _gives_back(known, action)):
            self.breakers[action.key] = step.breaker
        if kept:
            self._kept.add(action.key)
        held = isinstance(action, Record) and _holds(step.breaker, action)
        events: list[Transition | None] = [*step.made, *([None] if held else [])]
        self._announced += [(made.generation if made else self.sequence.last, action.key, made) for made in events]
        made_last = step.made[-1].generation if step.made else 0
        return Decision(tuple(step.made), news_of(step.breaker, policy, made_last) if events else None, answer)

    def find(self, key: str, now_ms: int) -> Breaker | None:
        breaker = self.breakers.get(key)
        return None if breaker is None or now_ms >= breaker.expires_ms else breaker

    def sweep(self, now_ms: int) -> tuple[str, ...]:
        """Drop what is past its time, as the server drops what has outlived its TTL."""
        forgotten = tuple(key for key in KEYS if key in self.breakers and self.find(key, now_ms) is None)
        for key in forgotten:
            del self.breakers[key]
        return forgotten

    def _tell(self, moment: Moment) -> None:
        """The stream and the index speak of a call as a whole: of each breaker as the call leaves it."""
        for position, key, transition in self._announced:
            news = news_of(self.breakers[key], moment.policies[key], position)
            self.stream.append(Event(position, news, transition))
            if not news.plain:
                self.listed[key] = news
        for key in self._kept:
            if self.breakers[key].plain:
                self.listed.pop(key, None)
        self._announced = []
        self._kept = set()

    def _take(self, step: Step, action: Action, known: bool) -> tuple[dict[str, object], bool]:
        """Run a verb. Returns its answer, and whether a store writes even if there was no transition."""
        match action:
            case Admit():
                admission = step.admit(action.token)
                return read_answer(admission), admission.probe
            case Record():
                failed = action.outcome.kind is FAILURE
                step.record(
                    action.outcome,
                    generation=action.generation,
                    token=action.token,
                    latency_ms=action.latency_ms,
                    failure=Failure.of(action.error, step.now_ms / 1000) if failed else None,
                    draw=action.draw,
                )
                return {}, action.outcome.kind is not IGNORED
            case Force():
                obeyed = step.force(action.order, reason=action.reason, until_ms=action.until_ms, actor=action.actor)
                return ({}, known) if obeyed else ({"refused at": step.now_ms}, False)
            case Evaluate():
                step.evaluate(action.tally, generation=action.generation, draw=action.draw)
                return {}, False
            case _:
                raise TypeError(action)


def _gives_back(known: Breaker | None, action: Action) -> bool:
    return known is not None and isinstance(action, Record) and action.token in known.leases


def _holds(breaker: Breaker, action: Record) -> bool:
    free = breaker.state is CLOSED and breaker.override is NOT_FORCED
    return action.outcome.kind is THROTTLED and free and action.generation >= breaker.generation


def news_of(breaker: Breaker, policy: Policy, generation: int) -> News:
    """What other processes need to know; `generation` is that of the event, which is all there is of a plain one."""
    if breaker.plain:
        return News(breaker.key, generation)
    return News(
        breaker.key,
        breaker.generation,
        plain=False,
        state=breaker.state,
        override=breaker.override,
        override_until_ms=breaker.override_until_ms,
        override_reason=breaker.override_reason,
        probe_ms=breaker.probe_ms,
        held_ms=breaker.held_ms,
        hold_ms=breaker.hold_ms,
        changed_ms=breaker.changed_ms,
        ramp_ms=policy.ramp_ms,
        reason=breaker.reason,
        numbers=breaker.numbers,
    )
