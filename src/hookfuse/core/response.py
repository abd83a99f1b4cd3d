"""What an answer means: for its delivery (sent, again, failed) and for the endpoint (the outcome).

Some statuses mean something by themselves: 2xx is a success; 410 says that the endpoint is gone; 429 and 503 with
a Retry-After ask for a pause. Every other answer is a failure, redirects too, and is tried again by the schedule.
An endpoint's `ResponsePolicy` may say otherwise. Of its ranges that cover a status the narrowest speaks, so that
`final=("4xx",), retry=("408",)` reads as it is meant. A range does not overrule a status that means something by
itself; naming that status does, but for 2xx, which is always a success.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime
from enum import StrEnum
from itertools import combinations, product
from typing import Any, Self

from hookfuse.core import bounds
from hookfuse.core.outcome import Outcome, parse_retry_after
from hookfuse.core.plain import given_fields
from hookfuse.core.retry import LONGEST_DELAY, MOST_RETRIES, RetrySchedule, spread_ms
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.core.statuses import Span
from hookfuse.errors import InvalidInput, InvalidPolicy

MOST_RANGES = 50
# A fault of ours is looked at again soon, as it costs the endpoint nothing. A destination that we may not dial, or
# that is gone, changes by someone's hand.
LOCAL_DELAY = 10.0
SLOW_DELAY = 3_600.0

_GONE = 410
_THROTTLING = frozenset({429, 503})
_SUCCESSES = Span(200, 299)


class Step(StrEnum):
    """Where an attempt leaves its delivery."""

    SENT = "sent"
    RETRY = "retry"
    FAILED = "failed"


_STEPS = {"sent": Step.SENT, "final": Step.FAILED, "retry": Step.RETRY}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from one attempt."""

    step: Step
    outcome: Outcome
    """What it says about the endpoint."""
    reason: str
    """One word for machines: ok, status_500, timeout, throttled, gone, final_status, exhausted."""
    delay_ms: int | None = None
    """How long to wait; only with RETRY."""
    spent: bool = True
    """Whether the attempt counts against the schedule."""
    disable: bool = False
    """The endpoint said that it is gone for good."""
    flag: str = ""
    """What someone has to look at before it can get better."""


@dataclass(frozen=True, slots=True)
class ResponsePolicy:
    """What an endpoint's answers mean. Statuses are written "404", "4xx" or "500-504".

    sent     statuses beside 2xx that count as delivered
    final    statuses that end the delivery as failed at once
    retry    statuses that are tried again, though a range in `final` covers them or with their own:
    retries  how often a status in `retry` is tried again at most; None: by the schedule, as all others are
    gap      seconds between these retries
    ignore   statuses that say nothing about the endpoint's health
    """

    sent: tuple[str | int, ...] = ()
    final: tuple[str | int, ...] = ()
    retry: tuple[str | int, ...] = ()
    retries: int | None = None
    gap: float = 60.0
    ignore: tuple[str | int, ...] = ()

    _steps: tuple[tuple[Span, Step], ...] = field(init=False, repr=False, compare=False, default=())
    _ignored: tuple[Span, ...] = field(init=False, repr=False, compare=False, default=())

    def __post_init__(self) -> None:
        spans = {name: self._read(name) for name in _STEPS}
        _check_apart(spans)
        steps = [(span, step) for name, step in _STEPS.items() for span in spans[name]]
        self._set("_steps", tuple(sorted(steps, key=lambda entry: entry[0].width)))
        self._set("_ignored", tuple(self._read("ignore")))
        self._set("gap", bounds.seconds("gap", self.gap, 0, LONGEST_DELAY))
        if self.retries is not None:
            bounds.whole("retries", self.retries, 1, MOST_RETRIES)
            if not self.retry:
                raise InvalidPolicy("retries", "come with the statuses in `retry` that it is for", self.retries)

    def _read(self, name: str) -> list[Span]:
        given: object = getattr(self, name)
        if not isinstance(given, list | tuple) or len(given) > MOST_RANGES:
            raise InvalidPolicy(name, f'be a list of at most {MOST_RANGES} statuses, such as ["400", "5xx"]', given)
        spans = [Span.parse(f"{name}[{at}]", each) for at, each in enumerate(given)]
        for at, span in enumerate(spans):
            if _SUCCESSES.covers(span.low) and _SUCCESSES.covers(span.high):
                raise InvalidPolicy(f"{name}[{at}]", "not be a 2xx status, which is always a success", given[at])
        self._set(name, tuple(map(str, spans)))
        return spans

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def step(self, status: int, *, named: bool = False) -> Step | None:
        """What is said of a status, or None; `named`: only if it is named by itself, not in a range."""
        for span, step in self._steps:
            if span.covers(status):
                return None if named and span.width > 1 else step
        return None

    def ignores(self, status: int, *, named: bool = False) -> bool:
        return any(span.covers(status) and not (named and span.width > 1) for span in self._ignored)

    def delay_ms(self, step: Step | None, attempts_made: int, schedule: RetrySchedule, draw: float) -> int | None:
        """The wait before a status of this step is tried again; None: no more."""
        if step is not Step.RETRY or self.retries is None:
            return schedule.delay_ms(attempts_made, draw)
        return spread_ms(self.gap, schedule.jitter, draw) if attempts_made <= self.retries else None

    def to_data(self) -> dict[str, Any]:
        """Plain data, ready for JSON; `from_data` gives an equal policy."""
        return {
            "sent": list(self.sent),
            "final": list(self.final),
            "retry": list(self.retry),
            "retries": self.retries,
            "gap": self.gap,
            "ignore": list(self.ignore),
        }

    @classmethod
    def from_data(cls, data: object) -> Self:
        return cls(**given_fields(cls, data))


def _check_apart(spans: dict[str, list[Span]]) -> None:
    """Two ranges of one width that share a status must not say different things of it."""
    for (name, ours), (other_name, theirs) in combinations(spans.items(), 2):
        for span, other in product(ours, theirs):
            if span.width == other.width and span.overlaps(other):
                raise InvalidPolicy(other_name, f"leave alone what {name} says of {span}", str(other))


_SENT = Verdict(Step.SENT, Outcome.OK, "ok")


def judge(
    result: SendResult, made: int, schedule: RetrySchedule, policy: ResponsePolicy, now: float, draw: float
) -> Verdict:
    """What follows from an attempt.

    `made` attempts of the delivery were spent before this one. `draw`, in [0, 1), is the random part of a delay.
    """
    if result.trouble is not None:
        return _judge_trouble(result.trouble, made, schedule, draw)
    if result.status is None:
        raise InvalidInput("A SendResult has a status or a trouble; this one has neither.")
    if result.succeeded:
        return _SENT
    return _judge_status(result.status, _retry_after(result, now), made, schedule, policy, draw)


def _judge_trouble(trouble: Trouble, made: int, schedule: RetrySchedule, draw: float) -> Verdict:
    if not trouble.ours:
        return _again(schedule.delay_ms(made + 1, draw), Outcome.FAILURE, trouble.value)
    blocked = trouble is Trouble.BLOCKED
    delay_ms = spread_ms(SLOW_DELAY if blocked else LOCAL_DELAY, schedule.jitter, draw)
    flag = trouble.value if blocked else ""
    return Verdict(Step.RETRY, Outcome.IGNORED, trouble.value, delay_ms, spent=False, flag=flag)


def _judge_status(
    status: int, retry_after: float | None, made: int, schedule: RetrySchedule, policy: ResponsePolicy, draw: float
) -> Verdict:
    hold = retry_after if status in _THROTTLING else None
    by_itself = hold is not None or status == _GONE
    step = policy.step(status, named=by_itself)
    if status == _GONE and step is None:
        return _judge_gone(made, schedule, draw)

    if policy.ignores(status, named=by_itself):
        outcome = Outcome.IGNORED
    elif step is Step.SENT:
        outcome = Outcome.OK
    elif hold is not None:
        outcome = Outcome.throttled(hold)
    else:
        outcome = Outcome.FAILURE

    reason = f"status_{status}" if hold is None else "throttled"
    if step is Step.SENT:
        return Verdict(step, outcome, reason)
    if step is Step.FAILED:
        return Verdict(step, outcome, "final_status")
    least_ms = 0 if retry_after is None else bounds.milliseconds(retry_after)
    return _again(policy.delay_ms(step, made + 1, schedule, draw), outcome, reason, least_ms)


def _judge_gone(made: int, schedule: RetrySchedule, draw: float) -> Verdict:
    # Spends nothing: it is the endpoint that ended, and its last delivery must be there when someone mends it.
    delay_ms = schedule.delay_ms(made + 1, draw)
    if delay_ms is None:
        delay_ms = spread_ms(SLOW_DELAY, schedule.jitter, draw)
    return Verdict(Step.RETRY, Outcome.IGNORED, "gone", delay_ms, spent=False, disable=True)


def _again(delay_ms: int | None, outcome: Outcome, reason: str, least_ms: int = 0) -> Verdict:
    if delay_ms is None:
        return Verdict(Step.FAILED, outcome, "exhausted")
    return Verdict(Step.RETRY, outcome, reason, max(delay_ms, least_ms))


def _retry_after(result: SendResult, now: float) -> float | None:
    """Seconds to wait by the answer's Retry-After, within 1 s and 1 h; None if there is none that can be read."""
    value = result.header("retry-after")
    if value is None:
        return None
    # A date is relative to the clock of who wrote it, which the answer's own date tells.
    try:
        sent = parsedate_to_datetime(result.header("date") or "")
        now = (sent if sent.tzinfo else sent.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):
        pass
    return parse_retry_after(value, now)
