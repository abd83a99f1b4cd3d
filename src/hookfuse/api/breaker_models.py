"""Breakers as they look outside."""

from __future__ import annotations

from collections.abc import Sequence

from hookfuse.api.wire import Instant, Wire, instant, seconds_instant
from hookfuse.core.history import Entry
from hookfuse.core.state import Override, Snapshot, State


class FailureOut(Wire):
    type: str
    message: str
    at: Instant


class BreakerOut(Wire):
    """A breaker as it is now. Counts are of the policy's window."""

    key: str
    app_id: str
    state: State
    override: Override
    override_until: Instant | None
    reason: str
    why: str
    """The reason in words."""
    generation: int
    failed: int
    ok: int
    slow: int
    failure_rate: float
    mean_latency: float | None
    streak: int
    trips: int
    opened_at: Instant | None
    probe_at: Instant | None
    """When the next probe may go."""
    changed_at: Instant | None
    throttled_until: Instant | None
    probes_in_flight: int
    held: int
    """How many deliveries wait for the endpoint, counted up to ten thousand."""
    failures: list[FailureOut]


class TransitionOut(Wire):
    key: str
    app_id: str
    endpoint_id: str | None
    """Null: several endpoints share the breaker."""
    before: State
    after: State
    override: Override
    generation: int
    at: Instant
    reason: str
    why: str
    """The reason in words."""
    numbers: dict[str, float]
    """What was counted when it happened."""
    actor: str


class HistoryOut(Wire):
    """Newest first."""

    transitions: list[TransitionOut]
    failures: list[FailureOut]


def breaker_told(snapshot: Snapshot, held: int) -> BreakerOut:
    return BreakerOut(
        key=snapshot.key,
        app_id=snapshot.key.partition("/")[0],
        state=snapshot.state,
        override=snapshot.override,
        override_until=seconds_instant(snapshot.override_until),
        reason=snapshot.reason,
        why=snapshot.why,
        generation=snapshot.generation,
        failed=snapshot.counts.failed,
        ok=snapshot.counts.ok,
        slow=snapshot.counts.slow,
        failure_rate=snapshot.failure_rate,
        mean_latency=snapshot.mean_latency,
        streak=snapshot.streak,
        trips=snapshot.trips,
        opened_at=seconds_instant(snapshot.opened_at),
        probe_at=seconds_instant(snapshot.probe_at),
        changed_at=seconds_instant(snapshot.changed_at),
        throttled_until=seconds_instant(snapshot.throttled_until),
        probes_in_flight=snapshot.probes_in_flight,
        held=held,
        failures=_failures(snapshot),
    )


def history_told(entries: Sequence[Entry], snapshot: Snapshot) -> HistoryOut:
    return HistoryOut(transitions=[transition_told(each) for each in entries], failures=_failures(snapshot))


def transition_told(entry: Entry) -> TransitionOut:
    transition = entry.transition
    return TransitionOut(
        key=transition.key,
        app_id=entry.app_id,
        endpoint_id=entry.endpoint_id,
        before=transition.before,
        after=transition.after,
        override=transition.override,
        generation=transition.generation,
        at=instant(int(transition.at * 1000)),
        reason=transition.reason,
        why=transition.why,
        numbers=dict(transition.numbers),
        actor=transition.actor,
    )


def _failures(snapshot: Snapshot) -> list[FailureOut]:
    return [
        FailureOut(type=each.type, message=each.message, at=instant(int(each.at * 1000)))
        for each in reversed(snapshot.failures)
    ]
