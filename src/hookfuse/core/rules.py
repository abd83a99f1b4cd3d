"""The reasons to trip. Each rule looks at the counts of the window and at the streak, and compares with >=."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from hookfuse.core import bounds
from hookfuse.core.bounds import DAY, milliseconds
from hookfuse.core.window import Counts
from hookfuse.errors import InvalidPolicy

Numbers: TypeAlias = Mapping[str, float]
"""The figures behind a decision, by name."""

_MANY = 1_000_000
_SHORTEST = 0.001


class Rule:
    """One reason to trip. Combine rules with `|`: any of them is enough."""

    __slots__ = ()
    name: ClassVar[str]

    def breached(self, counts: Counts, streak: int) -> Numbers | None:
        """The figures that reach the rule's limit, or None below it."""
        raise NotImplementedError

    def __or__(self, other: Rule | AnyOf) -> AnyOf:
        if not isinstance(other, Rule | AnyOf):
            return NotImplemented
        return AnyOf((self, *(other.rules if isinstance(other, AnyOf) else (other,))))


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Rules of which any one trips; made by `rule | rule`."""

    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        if not self.rules or not all(isinstance(rule, Rule) for rule in self.rules):
            raise InvalidPolicy("trip", "be a rule or rules joined with |", self.rules)

    def __or__(self, other: Rule | AnyOf) -> AnyOf:
        if not isinstance(other, Rule | AnyOf):
            return NotImplemented
        return AnyOf((*self.rules, *(other.rules if isinstance(other, AnyOf) else (other,))))


@dataclass(frozen=True, slots=True)
class Streak(Rule):
    """`n` failures in a row, however long that takes: the streak has no window."""

    n: int
    name: ClassVar[str] = "streak"

    def __post_init__(self) -> None:
        bounds.whole("Streak.n", self.n, 1, _MANY)

    def breached(self, counts: Counts, streak: int) -> Numbers | None:
        return {"streak": streak, "limit": self.n} if streak >= self.n else None


@dataclass(frozen=True, slots=True)
class Count(Rule):
    """`n` failures in the window; with `success_clears`, only those since the last success."""

    n: int
    success_clears: bool = False
    name: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        bounds.whole("Count.n", self.n, 1, _MANY)
        if not isinstance(self.success_clears, bool):
            raise InvalidPolicy("Count.success_clears", "be True or False", self.success_clears)

    def breached(self, counts: Counts, streak: int) -> Numbers | None:
        # The failures since the last success are the newest `streak` ones, so this many lie in the window.
        failed = min(counts.failed, streak) if self.success_clears else counts.failed
        return {"failed": failed, "limit": self.n} if failed >= self.n else None


@dataclass(frozen=True, slots=True)
class Rate(Rule):
    """A `share` of failed calls in the window, once there are `min_calls`."""

    share: float
    min_calls: int = 10
    name: ClassVar[str] = "rate"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", bounds.share("Rate.share", self.share))
        bounds.whole("Rate.min_calls", self.min_calls, 1, _MANY)

    def breached(self, counts: Counts, streak: int) -> Numbers | None:
        calls = counts.ok + counts.failed
        # Dividing, not multiplying: 7 / 100 >= 0.07 holds in floating point, 7 >= 0.07 * 100 does not.
        if calls < self.min_calls or counts.failed / calls < self.share:
            return None
        return {"failed": counts.failed, "calls": calls, "limit": self.share}


@dataclass(frozen=True, slots=True)
class Latency(Rule):
    """A `mean` latency (seconds) of the calls in the window, failed ones too, once there are `min_calls`."""

    mean: float
    min_calls: int = 10
    name: ClassVar[str] = "latency"

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", bounds.seconds("Latency.mean", self.mean, _SHORTEST, DAY))
        bounds.whole("Latency.min_calls", self.min_calls, 1, _MANY)

    def breached(self, counts: Counts, streak: int) -> Numbers | None:
        if counts.timed < self.min_calls or counts.latency_ms / counts.timed < milliseconds(self.mean):
            return None
        return {"mean": counts.latency_ms / counts.timed / 1000, "calls": counts.timed, "limit": self.mean}


@dataclass(frozen=True, slots=True)
class Slow(Rule):
    """A `share` of calls in the window that took `over` seconds or longer, once there are `min_calls`."""

    share: float
    over: float
    min_calls: int = 10
    name: ClassVar[str] = "slow"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", bounds.share("Slow.share", self.share))
        object.__setattr__(self, "over", bounds.seconds("Slow.over", self.over, _SHORTEST, DAY))
        bounds.whole("Slow.min_calls", self.min_calls, 1, _MANY)

    def breached(self, counts: Counts, streak: int) -> Numbers | None:
        if counts.timed < self.min_calls or counts.slow / counts.timed < self.share:
            return None
        return {"slow": counts.slow, "calls": counts.timed, "over": self.over, "limit": self.share}


RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (Streak, Count, Rate, Latency, Slow)}
