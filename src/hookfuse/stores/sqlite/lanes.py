"""The delivery verbs on SQLite. Each is a job of the writer: it runs within a transaction, alone."""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import apsw

from hookfuse.core.delivery import (
    Claim,
    Claims,
    Deferral,
    DeliveryState,
    Place,
    Queue,
    Rescued,
    Settlement,
)
from hookfuse.core.lanes import DAY_MS, fair_order, late_share, next_rate, rate_room
from hookfuse.core.message import Accepted, Answer, NewMessage, Refused
from hookfuse.stores.sql import statements, storable

SQL = statements("hookfuse.stores.sqlite")

_QUEUES = {Queue.FRESH: "fresh", Queue.LATE: "late"}


class _Lane(NamedTuple):
    endpoint_id: str
    app_id: str
    width: int
    in_flight: int
    rate_limit: int | None
    rate_us: int
    version: int


def accept(db: apsw.Connection, messages: Sequence[NewMessage], now: int) -> list[Answer]:
    rung: dict[str, int] = {}
    answers = [_accept(db, message, now, rung) for message in messages]
    db.executemany(SQL["ring_fresh"], rung.items())
    return answers


def _accept(db: apsw.Connection, message: NewMessage, now: int, rung: dict[str, int]) -> Answer:
    if db.execute(SQL["accept_application"], (message.app_id,)).fetchone() is None:
        return Refused("unknown_application")
    if message.idempotency_key is not None:
        known = db.execute(SQL["accept_known_key"], (message.app_id, message.idempotency_key, now - DAY_MS)).fetchone()
        if known is not None:
            fingerprint, id_, deliveries, created_ms = known
            if fingerprint != message.fingerprint:
                return Refused("idempotency_mismatch")
            return Accepted(id_, created_ms, deliveries, repeated=True)
    if message.uid is not None and db.execute(SQL["accept_known_uid"], (message.app_id, message.uid)).fetchone():
        return Refused("uid_taken")
    channels = json.dumps(message.channels)
    db.execute(
        SQL["accept_message"],
        (
            message.id,
            message.app_id,
            message.uid,
            message.event_type,
            channels,
            message.deliver_ms,
            now,
            message.payload,
        ),
    )
    due = max(message.deliver_ms or now, now)
    made = db.execute(
        SQL["accept_deliveries"],
        {
            "message": message.id,
            "app": message.app_id,
            "type": message.event_type,
            "channels": channels,
            "due": due,
            "now": now,
        },
    ).fetchall()
    for (endpoint,) in made:
        rung[endpoint] = min(due, rung.get(endpoint, due))
    if message.idempotency_key is not None:
        db.execute(
            SQL["accept_key"],
            (message.app_id, message.idempotency_key, message.fingerprint, message.id, len(made), now),
        )
    return Accepted(message.id, now, len(made))


def claim(db: apsw.Connection, limit: int, lease_ms: int, failing_limit: int, now: int) -> Claims:
    taken: list[Claim] = []
    token = secrets.randbits(62)
    room = {False: limit, True: min(failing_limit, limit)}

    def take(queue: Queue, most: int) -> int:
        before = len(taken)
        for failing in (False, True):
            left = min(most - (len(taken) - before), room[failing])
            if left > 0:
                found = _claim_queue(db, queue, failing, left, token, now + lease_ms, now)
                room[True] -= len(found) if failing else 0
                room[False] -= len(found)
                taken.extend(found)
        return len(taken) - before

    reserved = late_share(limit, token)
    late = take(Queue.LATE, reserved)
    take(Queue.FRESH, limit - len(taken))
    if late == reserved:
        take(Queue.LATE, limit - len(taken))
    return Claims(tuple(taken), 0 if taken else _next_wake(db, now, failing_limit > 0))


def _claim_queue(
    db: apsw.Connection, queue: Queue, failing: bool, most: int, token: int, lease_end: int, now: int
) -> list[Claim]:
    name = _QUEUES[queue]
    rows = db.execute(SQL[f"claim_{name}_lanes"], (failing, now, most)).fetchall()
    lanes = fair_order([_Lane(*row) for row in rows])
    each = max(1, -(-most // len(lanes))) if lanes else 0
    taken: list[Claim] = []
    for lane in lanes:
        if len(taken) >= most:
            break
        room = min(lane.width - lane.in_flight, each, most - len(taken), rate_room(lane.rate_limit, lane.rate_us, now))
        heads = db.execute(SQL["claim_heads"], (lane.endpoint_id, queue, room + 1)).fetchall()
        due = list(takewhile(lambda head: head[1] <= now, heads[:room]))
        db.executemany(SQL["claim_delivery"], ((lease_end, token, head[0], lane.endpoint_id) for head in due))
        rest = heads[len(due)][1] if len(heads) > len(due) else None
        rate_us = next_rate(lane.rate_limit, lane.rate_us, len(due), now)
        wake = None if rest is None else max(rest, now, -(-rate_us // 1000))
        in_flight = lane.in_flight + len(due)
        db.execute(SQL[f"claimed_{name}"], (in_flight, rate_us, wake, lane.endpoint_id))
        taken += (_claim(lane, head, token, in_flight) for head in due)
    return taken


def _claim(lane: _Lane, head: tuple[Any, ...], token: int, in_flight: int) -> Claim:
    message_id, _, attempts, spent, deaths, created_ms, event_type, payload = head
    return Claim(
        message_id,
        lane.endpoint_id,
        lane.app_id,
        token,
        lane.version,
        event_type,
        payload or b"",
        created_ms,
        attempts,
        spent,
        deaths,
        in_flight,
    )


def _next_wake(db: apsw.Connection, now: int, failing: bool) -> int | None:
    wakes = [
        db.execute(SQL[f"next_{name}"], (each,)).get
        for name in _QUEUES.values()
        for each in ((False, True) if failing else (False,))
    ]
    soonest = min((wake for wake in wakes if wake is not None), default=None)
    return None if soonest is None else max(soonest - now, 0)


class _Tally:
    """What a batch does to its lanes, added up so that each lane is written once."""

    def __init__(self) -> None:
        self.done: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.rung: dict[Queue, dict[str, int]] = {Queue.FRESH: {}, Queue.LATE: {}}

    def count(self, endpoint_id: str, healthy: bool | None = None) -> None:
        lane = self.done[endpoint_id]
        lane[0] += 1
        lane[1] += healthy is True
        lane[2] += healthy is False

    def ring(self, endpoint_id: str, queue: int, due: int) -> None:
        bells = self.rung[Queue(queue)]
        bells[endpoint_id] = min(due, bells.get(endpoint_id, due))

    def write(self, db: apsw.Connection) -> None:
        db.executemany(
            SQL["settle_lane"],
            (
                {"endpoint": endpoint, "done": done, "good": good, "bad": bad}
                for endpoint, (done, good, bad) in self.done.items()
            ),
        )
        self.write_bells(db)

    def write_bells(self, db: apsw.Connection) -> None:
        for queue, bells in self.rung.items():
            db.executemany(SQL[f"ring_{_QUEUES[queue]}"], bells.items())


def settle(db: apsw.Connection, settlements: Sequence[Settlement], now: int) -> list[Claim]:
    stale: list[Claim] = []
    tally = _Tally()
    attempts = []
    for each in settlements:
        if not _settle(db, each, tally, now):
            stale.append(each.claim)
            continue
        tally.count(each.claim.endpoint_id, each.healthy)
        if each.attempt is not None:
            attempts.append(each.attempt)
    db.executemany(
        SQL["settle_attempt"],
        (
            (
                a.message_id,
                a.id,
                a.endpoint_id,
                a.app_id,
                a.number,
                a.at_ms,
                a.status,
                storable(a.trouble),
                a.latency_ms,
                a.manual,
                storable(a.detail),
                a.response,
            )
            for a in attempts
        ),
    )
    tally.write(db)
    return stale


def _settle(db: apsw.Connection, each: Settlement, tally: _Tally, now: int) -> bool:
    claim = each.claim
    values: dict[str, Any] = {
        "message": claim.message_id,
        "endpoint": claim.endpoint_id,
        "token": claim.token,
        "reason": storable(each.reason),
        "made": int(each.attempt is not None),
        "spent": int(each.spent),
    }
    if each.state.ended:
        db.execute(SQL["settle_ended"], {**values, "state": each.state.value, "now": now})
        return db.changes() > 0
    return _return(db, values, tally, now + each.delay_ms, now)


def _return(db: apsw.Connection, values: dict[str, Any], tally: _Tally, due: int, now: int) -> bool:
    """Put a claimed delivery back into its lane."""
    row = db.execute(SQL["settle_pending"], {**values, "due": due, "now": now}).fetchone()
    if row is None:
        return False
    if row[0] is not None:
        tally.ring(values["endpoint"], row[0], due)
    return True


def defer(db: apsw.Connection, deferrals: Sequence[Deferral], now: int) -> None:
    tally = _Tally()
    blocked: dict[str, int] = {}
    for each in deferrals:
        given_back = Settlement(each.claim, DeliveryState.PENDING, each.reason, delay_ms=each.delay_ms, spent=False)
        if _settle(db, given_back, tally, now):
            tally.count(each.claim.endpoint_id)
            if each.wait_ms > 0:
                blocked[each.claim.endpoint_id] = now + each.wait_ms
    tally.write(db)
    db.executemany(SQL["block_lane"], ((until, endpoint) for endpoint, until in blocked.items()))


def unblock(db: apsw.Connection, endpoint_ids: Iterable[str]) -> None:
    db.executemany(SQL["unblock_lane"], ((endpoint,) for endpoint in endpoint_ids))


def rescue(db: apsw.Connection, deaths: int, limit: int, now: int) -> Rescued:
    tally = _Tally()
    quarantined = []
    lost = db.execute(SQL["lost_leases"], (now, limit)).fetchall()
    for message_id, endpoint_id, token, died in lost:
        db.execute(SQL["count_death"], (message_id, endpoint_id))
        ends = died + 1 >= deaths
        values = {"message": message_id, "endpoint": endpoint_id, "token": token, "made": 0, "spent": 0}
        if ends:
            db.execute(SQL["settle_ended"], {**values, "state": "failed", "reason": "quarantined", "now": now})
            quarantined.append(Place(message_id, endpoint_id))
        else:
            _return(db, {**values, "reason": "worker_lost"}, tally, now, now)
        tally.count(endpoint_id)
    tally.write(db)
    return Rescued(len(lost) - len(quarantined), tuple(quarantined))


def prune(db: apsw.Connection, older_than_ms: int, limit: int, now: int) -> int:
    ids = db.execute(SQL["prune_messages"], (older_than_ms, limit)).fetchall()
    for name in ("prune_attempts", "prune_deliveries", "prune_message"):
        db.executemany(SQL[name], ids)
    db.execute(SQL["prune_keys"], (now - DAY_MS,))
    return len(ids)
