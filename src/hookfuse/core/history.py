"""What happened to breakers and endpoints, and what of it people hear of."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from hookfuse.core.delivery import Claim, DeliveryState, Settlement
from hookfuse.core.endpoint import Endpoint
from hookfuse.core.notice import NOBODYS, Event, Occurrence
from hookfuse.core.rules import RULES
from hookfuse.core.state import CLOSED, DISABLED, HALF_OPEN, NOT_FORCED, OPEN, Snapshot, State, Transition

BY_HAND = "by hand"
"""The reason of an endpoint that its owner disabled."""
BY_BREAKER = "breaker: "
"""How the reason of an endpoint begins that its breaker disabled."""
GONE = "gone: the endpoint answered 410"
"""The reason of an endpoint that wants nothing any more."""
UNGUARDED = "no endpoint has this breaker any more"
"""The reason of a breaker that was closed because its endpoints were deleted."""
_BY_ITSELF = frozenset({*RULES, "probe_failed", "probe_slow", GONE})
"""Why a breaker is disabled that nobody ordered to be."""
AUTOMATIC = frozenset({"breaker", "worker"})
"""Actors that are nobody."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A transition as it is kept."""

    transition: Transition
    app_id: str
    endpoint_id: str | None
    """The endpoint, unless several share the breaker."""


class Head(NamedTuple):
    """The last transition of a breaker that is kept."""

    key: str
    generation: int
    state: State


class Unstopped(NamedTuple):
    """An endpoint that is enabled though its breaker, by the last transition that is kept, is disabled."""

    endpoint_id: str
    key: str


def disabled_itself(snapshot: Snapshot) -> bool:
    """Whether a breaker is disabled, and not because someone said so."""
    return snapshot.state is DISABLED and snapshot.override is NOT_FORCED and snapshot.reason in _BY_ITSELF


def app_of(key: str) -> str:
    return key.partition("/")[0]


def named_endpoint(key: str) -> str:
    """The endpoint that a breaker of its own is named after."""
    return key.partition("/")[2]


def told_by(entry: Entry) -> Occurrence | None:
    """What people hear of a transition. Probes and overrides are told to nobody: who decides knows."""
    made = entry.transition
    before, after = made.before, made.after
    if before is after or made.reason == UNGUARDED:
        return None
    if DISABLED in (before, after):
        event = Event.ENDPOINT_DISABLED if after is DISABLED else Event.ENDPOINT_ENABLED
    elif after is OPEN:
        event = Event.BREAKER_OPENED
    elif after is CLOSED:
        event = Event.BREAKER_CLOSED
    else:
        return None
    return Occurrence(
        event,
        made.key,
        made.generation,
        made.key,
        entry.app_id,
        int(made.at * 1000),
        entry.endpoint_id,
        {
            "before": before.value,
            "after": after.value,
            "reason": made.reason,
            "why": made.why,
            "numbers": dict(made.numbers),
            "actor": made.actor,
        },
        # A probe that failed opens what was never closed for anyone, and what disables may say so in two places.
        again=DISABLED in (before, after) or (before is HALF_OPEN and after is OPEN),
    )


def stopped(endpoint: Endpoint) -> Occurrence:
    """An endpoint was disabled or enabled, and not by its breaker."""
    event = Event.ENDPOINT_ENABLED if endpoint.enabled else Event.ENDPOINT_DISABLED
    reason = BY_HAND if endpoint.enabled else endpoint.disabled_reason
    facts = {"reason": reason, "why": reason, "actor": "operator" if reason == BY_HAND else "worker"}
    about = f"{endpoint.app_id}/{endpoint.id}"
    return Occurrence(
        event,
        endpoint.id,
        endpoint.version,
        about,
        endpoint.app_id,
        endpoint.updated_ms,
        endpoint.id,
        facts,
        again=True,
    )


def exhausted(settlements: Iterable[Settlement], stale: Collection[Claim], now_ms: int) -> list[Occurrence]:
    """Deliveries that have failed for good, as one occurrence for each endpoint."""
    failed = [each for each in settlements if each.state is DeliveryState.FAILED]
    if not failed:
        return []
    lost = {(claim.message_id, claim.endpoint_id) for claim in stale}
    found: dict[str, list[Settlement]] = {}
    for each in failed:
        if (each.claim.message_id, each.claim.endpoint_id) not in lost:
            found.setdefault(each.claim.endpoint_id, []).append(each)
    return [_gave_up(found[endpoint_id], now_ms) for endpoint_id in sorted(found)]


def _gave_up(settlements: list[Settlement], now_ms: int) -> Occurrence:
    last = settlements[-1]
    claim, attempt = last.claim, last.attempt
    facts: dict[str, Any] = {"message_id": claim.message_id, "event_type": claim.event_type, "reason": last.reason}
    if attempt is not None:
        facts["attempt"] = {"id": attempt.id, "at_ms": attempt.at_ms, "status": attempt.status}
    return _of_message(claim.app_id, claim.endpoint_id, claim.message_id, now_ms, facts, len(settlements))


def quarantined(app_id: str, endpoint_id: str, message_id: str, now_ms: int) -> Occurrence:
    """A delivery was given up because it lost too many workers."""
    facts = {"message_id": message_id, "reason": "quarantined"}
    return _of_message(app_id, endpoint_id, message_id, now_ms, facts, 1)


def _of_message(
    app_id: str, endpoint_id: str, message_id: str, now_ms: int, facts: dict[str, Any], count: int
) -> Occurrence:
    about = f"{app_id}/{endpoint_id}"
    key = f"{message_id}/{endpoint_id}"
    return Occurrence(Event.EXHAUSTED, key, now_ms, about, app_id, now_ms, endpoint_id, facts, count)


def failing(app_id: str, endpoint_id: str, since_ms: int, stage_ms: int, last: tuple[Any, ...] | None) -> Occurrence:
    """Nothing has reached an endpoint for as long as a stage lasts.

    `last` is its last attempt: id, message, instant, status and trouble.
    """
    facts: dict[str, Any] = {"since_ms": since_ms, "stage_ms": stage_ms}
    if last is not None:
        id_, message_id, at_ms, status, trouble = last
        facts["message_id"] = message_id
        facts["reason"] = trouble or f"status {status}"
        facts["attempt"] = {"id": id_, "at_ms": at_ms, "status": status}
    return Occurrence(
        Event.FAILING,
        f"{endpoint_id}/failing/{stage_ms}",
        since_ms,
        f"{app_id}/{endpoint_id}",
        app_id,
        since_ms + stage_ms,
        endpoint_id,
        facts,
    )


def service_is(kind: str, sentence: str, at_ms: int, *, troubled: bool) -> Occurrence:
    """Something about the service itself. All processes may say the same, and it is told once."""
    event = Event.SERVICE_TROUBLE if troubled else Event.SERVICE_RECOVERED
    facts = {"reason": kind, "why": sentence}
    return Occurrence(event, f"service/{kind}", at_ms, kind, NOBODYS, at_ms, facts=facts, again=True)


def seen(snapshot: Snapshot, before: State) -> Transition:
    """The last transition of a breaker that nobody wrote down, as far as the breaker still tells."""
    return Transition(
        snapshot.key,
        before,
        snapshot.state,
        snapshot.generation,
        snapshot.changed_at or 0.0,
        snapshot.reason,
        dict(snapshot.numbers),
        override=snapshot.override,
    )
