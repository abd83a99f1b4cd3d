"""How near the rules of a policy are to tripping."""

from __future__ import annotations

from dataclasses import dataclass

from hookfuse.core.policy import Policy
from hookfuse.core.rules import Count, Latency, Rate, Rule, Slow, Streak
from hookfuse.core.window import Counts


@dataclass(frozen=True, slots=True)
class Gauge:
    """One rule: the figure that it looks at, and the one at which it trips."""

    rule: str
    value: float
    limit: float
    calls: int | None = None
    """How many calls the figure is made of; None: it does not matter."""
    min_calls: int | None = None
    """With fewer calls the rule does not judge."""

    @property
    def share(self) -> float:
        """How much of the limit is reached: 1 trips, unless there are too few calls."""
        return self.value / self.limit


def gauges(policy: Policy, counts: Counts, streak: int) -> tuple[Gauge, ...]:
    """One for each rule, in the policy's order."""
    return tuple(_gauge(rule, counts, streak) for rule in policy.rules)


def nearest(found: tuple[Gauge, ...]) -> Gauge:
    """The one that is nearest to tripping; one that does not judge yet counts by its calls."""
    return max(found, key=_nearness)


def _nearness(gauge: Gauge) -> float:
    if gauge.calls is None or gauge.min_calls is None:
        return gauge.share
    return min(gauge.share, gauge.calls / gauge.min_calls)


def _gauge(rule: Rule, counts: Counts, streak: int) -> Gauge:
    match rule:
        case Streak():
            return Gauge(rule.name, streak, rule.n)
        case Count():
            failed = min(counts.failed, streak) if rule.success_clears else counts.failed
            return Gauge(rule.name, failed, rule.n)
        case Rate():
            return Gauge(rule.name, counts.failure_rate, rule.share, counts.calls, rule.min_calls)
        case Latency():
            return Gauge(rule.name, counts.mean_latency or 0.0, rule.mean, counts.timed, rule.min_calls)
        case Slow():
            slow = counts.slow / counts.timed if counts.timed else 0.0
            return Gauge(rule.name, slow, rule.share, counts.timed, rule.min_calls)
        case _:
            raise TypeError(f"There is no gauge for {rule!r}.")
