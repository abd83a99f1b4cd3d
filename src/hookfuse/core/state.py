"""What a breaker holds, what people see of it, and what is announced when it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from hookfuse.core.bounds import milliseconds
from hookfuse.core.outcome import Failure
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Numbers
from hookfuse.core.window import Counts, Window

FAILURES_KEPT = 5
_RAMP_START = 0.1
NO_NUMBERS: Numbers = {}


class State(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"
    DISABLED = "disabled"


# Reading a member through its class costs 0.1 us on Python 3.11; these names are for the code that runs per call.
CLOSED: Final = State.CLOSED
OPEN: Final = State.OPEN
HALF_OPEN: Final = State.HALF_OPEN
DISABLED: Final = State.DISABLED


class Override(StrEnum):
    """What an operator says, whatever the state."""

    NONE = "none"
    OPEN = "open"
    CLOSED = "closed"


NOT_FORCED: Final = Override.NONE
FORCED_OPEN: Final = Override.OPEN
FORCED_CLOSED: Final = Override.CLOSED


class Order(StrEnum):
    """What an operator can tell a breaker to do."""

    FORCE_OPEN = "force_open"
    FORCE_CLOSED = "force_closed"
    UNFORCE = "unforce"
    PROBE = "probe"
    DISABLE = "disable"
    ENABLE = "enable"
    RESET = "reset"


class Sequence:
    """The generations of one shard: they only grow, across keys, restarts and lost data."""

    __slots__ = ("last",)

    def __init__(self, last: int = 0) -> None:
        self.last = last

    def take(self, now_ms: int) -> int:
        self.last = max(self.last + 1, now_ms)
        return self.last


class Totals(NamedTuple):
    """Outcomes since the key is known, those of older generations included."""

    ok: int = 0
    failed: int = 0
    slow: int = 0


# Plain tuples: unpacking one costs half of what a named one does, and the hot path does it per call.
Shut: TypeAlias = tuple[float, float, str]
"""From and until when (Unix seconds) an open breaker refuses every call, and why."""
Quick: TypeAlias = tuple[Policy, float, float]
"""Under which policy, and from and until when, a success changes nothing but the newest bucket."""


class Breaker:
    """The state of one key. A store owns it and hands it to the machine, which is all that changes it."""

    __slots__ = (
        "changed_ms",
        "expires_ms",
        "failures",
        "generation",
        "held_ms",
        "hold_ms",
        "kept_ms",
        "key",
        "leases",
        "numbers",
        "opened_ms",
        "override",
        "override_reason",
        "override_until_ms",
        "plain",
        "probe_ms",
        "probe_successes",
        "quick",
        "reason",
        "shut",
        "state",
        "streak",
        "total_failed",
        "total_ok",
        "total_slow",
        "touched",
        "trips",
        "window",
    )

    def __init__(self, key: str, bucket_ms: int) -> None:
        self.key = key
        self.state: State = CLOSED
        self.generation = 0
        self.changed_ms = 0
        self.streak = 0
        self.window = Window(bucket_ms)
        self.trips = 0
        self.opened_ms: int | None = None
        self.probe_ms: int | None = None
        self.leases: dict[str, int] = _NO_LEASES
        self.probe_successes = 0
        self.override: Override = NOT_FORCED
        self.override_until_ms: int | None = None
        self.override_reason = ""
        # From when and until when a Retry-After holds it.
        self.held_ms = 0
        self.hold_ms = 0
        self.reason = ""
        self.numbers: Numbers = NO_NUMBERS
        self.failures: tuple[Failure, ...] = ()
        self.total_ok = 0
        self.total_failed = 0
        self.total_slow = 0
        # Forgotten at expires_ms, or so long after the last success that the hot path counted (Unix seconds).
        self.expires_ms = 0
        self.touched = 0.0
        self.kept_ms = 0
        # For the hot path. Plain: nothing to ask before a call. Quick: a success need only be counted. Shut: there is
        # nothing but a refusal to be had.
        self.plain = True
        self.quick: Quick | None = None
        self.shut: Shut | None = None

    def expired(self, now_ms: int) -> bool:
        # Rounded as every instant is, so that a success of the hot path keeps it exactly as long as a step would.
        return now_ms >= self.expires_ms and now_ms >= milliseconds(self.touched) + self.kept_ms


_NO_LEASES: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a breaker, announced once. `(key, generation)` names it in the whole fleet."""

    key: str
    before: State
    after: State
    generation: int
    at: float
    reason: str
    numbers: Numbers = field(default_factory=dict, hash=False)
    actor: str = "breaker"
    override: Override = NOT_FORCED

    @property
    def why(self) -> str:
        return explain(self.reason, self.numbers)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A breaker as it is now; instants in Unix seconds. An unknown key is closed, with generation 0."""

    key: str
    state: State
    override: Override
    reason: str
    numbers: Numbers = field(hash=False)
    generation: int
    counts: Counts
    totals: Totals
    streak: int
    trips: int
    opened_at: float | None
    probe_at: float | None
    changed_at: float | None
    throttled_until: float | None
    override_until: float | None
    probes_in_flight: int
    probe_successes: int
    share: float
    failures: tuple[Failure, ...]

    @property
    def failure_rate(self) -> float:
        """Share of failed calls in the window; 0 without calls."""
        return self.counts.failure_rate

    @property
    def mean_latency(self) -> float | None:
        """Seconds over the timed calls in the window; None without any."""
        return self.counts.mean_latency

    @property
    def why(self) -> str:
        """The reason in words."""
        return explain(self.reason, self.numbers)

    @property
    def refuses(self) -> bool:
        """Whether calls are turned away, but for probes."""
        if self.override is not NOT_FORCED:
            return self.override is Override.OPEN
        return self.state is not CLOSED or self.throttled_until is not None

    @property
    def healthy(self) -> bool:
        """Plainly closed: not overridden, not held by a Retry-After, not in its ramp."""
        free = self.override is NOT_FORCED and self.throttled_until is None
        return self.state is CLOSED and free and self.share == 1


def share(breaker: Breaker, policy: Policy, now_ms: int) -> float:
    """The part of the full flow that a breaker allows: 1, or less in the ramp after it closed."""
    if breaker.state is not CLOSED or not breaker.generation:
        return 1.0
    return ramp_share(now_ms - breaker.changed_ms, policy.ramp_ms)


def ramp_share(since_ms: int, ramp_ms: int) -> float:
    """How far a ramp has grown so long after closing."""
    return _RAMP_START + (1 - _RAMP_START) * since_ms / ramp_ms if 0 <= since_ms < ramp_ms else 1.0


def snapshot(breaker: Breaker, policy: Policy, now_ms: int) -> Snapshot:
    """What people see: the breaker as stored, but without what has run out by `now_ms`."""
    window = breaker.window
    # By its own width: whoever looks with another policy must not empty it.
    span_ms = policy.window_ms if window.width_ms == policy.bucket_ms else window.span_ms
    until_ms = breaker.override_until_ms
    ended = until_ms is not None and now_ms >= until_ms
    forced = breaker.override is not NOT_FORCED and not ended
    # An override that has run out ends with the next call; what that call will find is shown already.
    after = HALF_OPEN if breaker.override is FORCED_OPEN else CLOSED
    held = breaker.held_ms <= now_ms < breaker.hold_ms
    return Snapshot(
        key=breaker.key,
        state=after if ended else breaker.state,
        override=breaker.override if forced else NOT_FORCED,
        reason=breaker.override_reason if forced else breaker.reason,
        numbers=NO_NUMBERS if forced else breaker.numbers,
        generation=breaker.generation,
        counts=window.counts_at(now_ms, window.width_ms, span_ms),
        totals=Totals(breaker.total_ok + window.quick_total, breaker.total_failed, breaker.total_slow),
        streak=breaker.streak,
        trips=breaker.trips,
        opened_at=_seconds(breaker.opened_ms),
        probe_at=_seconds(breaker.probe_ms),
        changed_at=_seconds(breaker.changed_ms or None),
        throttled_until=_seconds(breaker.hold_ms) if held else None,
        override_until=_seconds(until_ms) if forced else None,
        probes_in_flight=sum(now_ms < end for end in breaker.leases.values()),
        probe_successes=breaker.probe_successes,
        share=share(breaker, policy, now_ms),
        failures=breaker.failures,
    )


def _seconds(instant_ms: int | None) -> float | None:
    return None if instant_ms is None else instant_ms / 1000


_WORDS: Mapping[str, str] = {
    "streak": "failures in a row: {streak:g}, limit {limit:g}",
    "count": "failures in the window: {failed:g}, limit {limit:g}",
    "rate": "{failed:g} of {calls:g} calls failed, limit {limit:.3g}",
    "latency": "mean latency {mean:.3g} s over {calls:g} calls, limit {limit:.3g} s",
    "slow": "{slow:g} of {calls:g} calls took {over:.3g} s or longer, limit {limit:.3g}",
    "probe_failed": "the probe failed",
    "probe_slow": "the probe took {latency:.3g} s, limit {limit:.3g} s",
    "probe_due": "the cool-off is over",
    "probe_succeeded": "the probe succeeded",
    "sample_recovered": "{ok:g} of {calls:g} calls succeeded, enough to close",
    "reenabled": "the time to stay disabled is over",
    "override_ended": "the override's time is over",
}


def explain(reason: str, numbers: Numbers) -> str:
    """A reason in words; an operator's own text stays as it is."""
    try:
        return _WORDS[reason].format(**numbers)
    except (KeyError, IndexError, ValueError):
        return reason
