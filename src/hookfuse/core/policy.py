"""The numbers that drive a breaker. A policy is data: it compares, hashes, and round-trips through JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal, Self

from hookfuse.core import bounds
from hookfuse.core.bounds import DAY, Duration, milliseconds
from hookfuse.core.rules import RULES, AnyOf, Latency, Rate, Rule, Slow, Streak
from hookfuse.core.window import BUCKETS, FOREVER_MS
from hookfuse.errors import InvalidInput, InvalidPolicy, shown

_SHORTEST = 0.001


class Evaluate(StrEnum):
    INLINE = "inline"
    SAMPLED = "sampled"


class Mode(StrEnum):
    ENFORCE = "enforce"
    SHADOW = "shadow"


def _derived(default: Any = None) -> Any:
    return field(init=False, repr=False, compare=False, default=default)


@dataclass(frozen=True, slots=True)
class Policy:
    """When a breaker trips, how long it stays open, and how it comes back. Durations: seconds or timedelta.

    trip            a rule, or rules joined with `|`
    window          seconds the counts look back; None: all time
    cool_off        how long the first trip opens; the nth in a row: cool_off x cool_off_factor^(n-1),
                    at most cool_off_max (default: an hour, or cool_off if that is longer), +- jitter (a share)
    probes          how many probes may be in flight in half_open, over the whole fleet
    probe_lease     how long a probe may take; longer than your request's deadline
    close_after     successes in a row in half_open that close it
    close_rate      share of successes at which a sample closes it
    ramp            seconds after closing in which `Admission.share` grows from 0.1 to 1
    disable_after   trips in a row that disable it; None: never
    reenable_after  seconds after which a disabled breaker lets a probe through; None: never by itself
    forget_after    how long a quiet breaker that is not closed, or has a streak, is kept
    evaluate        "inline": every outcome decides; "sampled": `evaluate` decides, every sample_every seconds
    mode            "enforce"; "shadow": decides and announces all the same, but lets every call pass
    """

    trip: Rule | AnyOf = Streak(5) | Rate(0.5, min_calls=20)
    window: Duration | None = 60.0
    cool_off: Duration = 30.0
    cool_off_factor: float = 1.0
    cool_off_max: Duration | None = None
    jitter: float = 0.0
    probes: int = 1
    probe_lease: Duration = 60.0
    close_after: int = 1
    close_rate: float | None = None
    ramp: Duration = 0.0
    disable_after: int | None = None
    reenable_after: Duration | None = None
    forget_after: Duration = 30 * DAY
    evaluate: Evaluate | Literal["inline", "sampled"] = Evaluate.INLINE
    sample_every: Duration = 30.0
    mode: Mode | Literal["enforce", "shadow"] = Mode.ENFORCE

    rules: tuple[Rule, ...] = _derived(())
    window_ms: int = _derived(0)
    bucket_ms: int = _derived(0)
    cool_off_ms: int = _derived(0)
    cool_off_max_ms: int = _derived(0)
    probe_lease_ms: int = _derived(0)
    ramp_ms: int = _derived(0)
    reenable_ms: int | None = _derived()
    forget_ms: int = _derived(0)
    healthy_ms: int = _derived(0)
    remember_ms: int = _derived(0)
    quiet_ms: int = _derived(0)
    slow_ms: int = _derived(FOREVER_MS)
    limit_ms: int = _derived(FOREVER_MS)
    inline: bool = _derived(True)
    enforced: bool = _derived(True)
    judges_latency: bool = _derived(False)
    most_min_calls: int = _derived(0)

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_together()
        self._derive()

    def _check_numbers(self) -> None:
        if not isinstance(self.trip, Rule | AnyOf):
            raise InvalidPolicy("trip", "be a rule or rules joined with |, such as Streak(5)", self.trip)
        if isinstance(self.trip, AnyOf) and len(self.trip.rules) == 1:
            self._set("trip", self.trip.rules[0])
        for name, low, high in _DURATIONS:
            value = getattr(self, name)
            if value is not None or name not in _OPTIONAL:
                self._set(name, bounds.seconds(name, value, low, high))
        for name, most in (("probes", 1_000), ("close_after", 1_000), ("disable_after", 1_000_000)):
            if name != "disable_after" or self.disable_after is not None:
                bounds.whole(name, getattr(self, name), 1, most)
        self._set("cool_off_factor", bounds.number("cool_off_factor", self.cool_off_factor, 1, 10))
        self._set("jitter", bounds.number("jitter", self.jitter, 0, 0.5))
        if self.close_rate is not None:
            self._set("close_rate", bounds.share("close_rate", self.close_rate))
        for name, choices in (("evaluate", Evaluate), ("mode", Mode)):
            try:
                self._set(name, choices(getattr(self, name)))
            except ValueError:
                words = " or ".join(f'"{choice}"' for choice in choices)
                raise InvalidPolicy(name, f"be {words}", getattr(self, name)) from None

    def _check_together(self) -> None:
        window, cool_off, longest = self._in("window"), self._in("cool_off"), self._in("cool_off_max")
        if self.cool_off_max is not None and longest < cool_off:
            raise InvalidPolicy("cool_off_max", f"be at least cool_off ({cool_off:g} s)", longest)
        if self._in("forget_after") < max(window, cool_off, longest):
            raise InvalidPolicy("forget_after", "be at least window, cool_off and cool_off_max", self.forget_after)
        if self.evaluate is Evaluate.SAMPLED and self.window is not None and window < self._in("sample_every"):
            raise InvalidPolicy("window", f"be at least sample_every ({self.sample_every} s)", self.window)
        if len({rule.over for rule in self._rules() if isinstance(rule, Slow)}) > 1:
            raise InvalidPolicy("trip", "use one `over` in all its Slow rules", self.trip)

    def _derive(self) -> None:
        rules = self._rules()
        over = [rule.over for rule in rules if isinstance(rule, Slow)]
        limits = over + [rule.mean for rule in rules if isinstance(rule, Latency)]
        endless = self.window is None
        window_ms = FOREVER_MS if endless else milliseconds(self._in("window"))
        bucket_ms = FOREVER_MS if endless else -(-window_ms // BUCKETS)
        longest_ms = milliseconds(self._in("cool_off_max") or max(3600.0, self._in("cool_off")))
        forget_ms = milliseconds(self._in("forget_after"))
        for name, value in {
            "rules": rules,
            "window_ms": window_ms,
            "bucket_ms": bucket_ms,
            "cool_off_ms": milliseconds(self._in("cool_off")),
            "cool_off_max_ms": longest_ms,
            "probe_lease_ms": milliseconds(self._in("probe_lease")),
            "ramp_ms": milliseconds(self._in("ramp")),
            "reenable_ms": None if self.reenable_after is None else milliseconds(self._in("reenable_after")),
            "forget_ms": forget_ms,
            # Closed for this long, the next trip is the first again; without a window, the longest cool-off.
            "healthy_ms": longest_ms if endless else window_ms,
            "remember_ms": 2 * (longest_ms if endless else max(window_ms, longest_ms)),
            "quiet_ms": min(window_ms + bucket_ms, forget_ms),
            "slow_ms": milliseconds(over[0]) if over else FOREVER_MS,
            "limit_ms": milliseconds(min(limits)) if limits else FOREVER_MS,
            "judges_latency": bool(limits),
            "most_min_calls": max((rule.min_calls for rule in rules if isinstance(rule, Rate)), default=0),
            "inline": self.evaluate is Evaluate.INLINE,
            "enforced": self.mode is Mode.ENFORCE,
        }.items():
            self._set(name, value)

    def _rules(self) -> tuple[Rule, ...]:
        return self.trip.rules if isinstance(self.trip, AnyOf) else (self.trip,)

    def _in(self, name: str) -> float:
        """A checked duration in seconds; 0 where there is none."""
        value: float | None = getattr(self, name)
        return value or 0.0

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON; `from_dict` gives an equal policy."""
        data: dict[str, Any] = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        data["trip"] = [
            {"rule": rule.name, **{each.name: getattr(rule, each.name) for each in fields(rule)}}  # type: ignore[arg-type]
            for rule in self.rules
        ]
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        if not isinstance(data, Mapping):
            raise InvalidInput(f"A policy is an object with fields such as trip and window, got {shown(data)}.")
        known = {each.name for each in fields(cls) if each.init}
        for name in data:
            if name not in known:
                raise InvalidPolicy(str(name), f"be one of {', '.join(sorted(known))}", data[name])
        given = dict(data)
        if "trip" in given:
            given["trip"] = _read_trip(given["trip"])
        return cls(**given)

    def to_json(self) -> str:
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise InvalidInput(f"A policy must be valid JSON: {error}.") from None
        return cls.from_dict(data)


_DURATIONS: tuple[tuple[str, float, float], ...] = (
    ("window", 0.01, 30 * DAY),
    ("cool_off", _SHORTEST, 30 * DAY),
    ("cool_off_max", _SHORTEST, 30 * DAY),
    ("probe_lease", 0.01, DAY),
    ("ramp", 0, DAY),
    ("reenable_after", _SHORTEST, 366 * DAY),
    ("forget_after", 1, 3660 * DAY),
    ("sample_every", _SHORTEST, DAY),
)
_OPTIONAL = frozenset({"window", "cool_off_max", "reenable_after"})


def _read_trip(data: object) -> Rule | AnyOf:
    if isinstance(data, Rule | AnyOf):
        return data
    entries = data if isinstance(data, list | tuple) else [data]
    rules = tuple(_read_rule(entry) for entry in entries)
    return rules[0] if len(rules) == 1 else AnyOf(rules)


def _read_rule(data: object) -> Rule:
    if not isinstance(data, Mapping) or str(data.get("rule")) not in RULES:
        raise InvalidPolicy("trip", f'be rules like {{"rule": "streak", "n": 5}}; there are {", ".join(RULES)}', data)
    kind = RULES[str(data["rule"])]
    given = {name: value for name, value in data.items() if name != "rule"}
    known = {each.name for each in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise InvalidPolicy(f"{kind.__name__}.{name}", f"be one of {', '.join(sorted(known))}", given[name])
    try:
        return kind(**given)
    except TypeError:
        missing = ", ".join(sorted(known - given.keys()))
        raise InvalidPolicy(f"trip ({kind.__name__})", f"have {missing}", data) from None
