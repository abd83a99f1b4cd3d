"""Breakers and transitions as plain data, for `--json`: named as in the library, instants in Unix seconds."""

from __future__ import annotations

from typing import Any

from hookfuse.cli.words import condition, met_by_callers, why, why_changed
from hookfuse.core.state import Snapshot, Transition


def breaker_record(seen: Snapshot) -> dict[str, Any]:
    return {
        "key": seen.key,
        "condition": condition(seen).value,
        "state": seen.state.value,
        "override": seen.override.value,
        "override_until": seen.override_until,
        "reason": seen.reason,
        "numbers": dict(seen.numbers),
        "why": why(seen),
        "changed_at": seen.changed_at,
        "opened_at": seen.opened_at,
        "probe_at": seen.probe_at,
        "throttled_until": seen.throttled_until,
        "counts": {
            "ok": seen.counts.ok,
            "failed": seen.counts.failed,
            "slow": seen.counts.slow,
            "failure_rate": seen.failure_rate,
            "mean_latency": seen.mean_latency,
        },
        "totals": seen.totals._asdict(),
        "streak": seen.streak,
        "trips": seen.trips,
        "probes_in_flight": seen.probes_in_flight,
        "probe_successes": seen.probe_successes,
        "share": seen.share,
        "generation": seen.generation,
        "failures": [failure._asdict() for failure in seen.failures],
    }


def transition_record(made: Transition) -> dict[str, Any]:
    return {
        "key": made.key,
        "condition": met_by_callers(made.after, made.override).value,
        "before": made.before.value,
        "after": made.after.value,
        "override": made.override.value,
        "at": made.at,
        "reason": made.reason,
        "numbers": dict(made.numbers),
        "why": why_changed(made),
        "actor": made.actor,
        "generation": made.generation,
    }
