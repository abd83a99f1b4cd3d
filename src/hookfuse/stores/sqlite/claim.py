"""Claiming on SQLite: a job of the writer. Lanes first, then the first few deliveries of each."""

from __future__ import annotations

import secrets
from itertools import takewhile
from typing import Any, NamedTuple

import apsw

from hookfuse.core.delivery import Claim, Claims, Queue
from hookfuse.core.lanes import fair_order, late_share, next_rate, rate_room
from hookfuse.stores.sqlite.queries import SQL

_NAMES = {Queue.FRESH: "fresh", Queue.LATE: "late"}
_LANES = {queue: SQL[f"claim_{name}_lanes"] for queue, name in _NAMES.items()}
_CLAIMED = {queue: SQL[f"claimed_{name}"] for queue, name in _NAMES.items()}
_NEXT = {queue: SQL[f"next_{name}"] for queue, name in _NAMES.items()}
_HEADS = SQL["claim_heads"]


class _Lane(NamedTuple):
    endpoint_id: str
    app_id: str
    width: int
    in_flight: int
    rate_limit: int | None
    rate_us: int
    version: int


class _Claiming:
    """One claim: up to `limit` deliveries, of failing lanes up to `failing_limit`."""

    def __init__(self, db: apsw.Connection, limit: int, lease_ms: int, failing_limit: int, now: int) -> None:
        self._db = db
        self._now = now
        self._lease_end = now + lease_ms
        self._room = {False: limit, True: min(failing_limit, limit)}
        self.token = secrets.randbits(62)
        self.taken: list[Claim] = []

    def take(self, queue: Queue, most: int) -> int:
        """Take up to `most` of a queue, from healthy lanes before failing ones; returns how many."""
        before = len(self.taken)
        for failing in (False, True):
            left = min(most - (len(self.taken) - before), self._room[failing])
            if left > 0:
                found = self._take_lanes(queue, failing, left)
                self._room[False] -= found
                self._room[True] -= found if failing else 0
        return len(self.taken) - before

    def _take_lanes(self, queue: Queue, failing: bool, most: int) -> int:
        rows: list[Any] = self._db.execute(_LANES[queue], (failing, self._now, most)).fetchall()
        lanes = fair_order([_Lane(*row) for row in rows])
        each = -(-most // len(lanes)) if lanes else 0
        first = len(self.taken)
        changes: list[tuple[Any, ...]] = []
        for lane in lanes:
            left = most - (len(self.taken) - first)
            if left <= 0:
                break
            changes.append(self._take_heads(lane, queue, failing, min(each, left)))
        self._db.executemany(
            SQL["claim_delivery"],
            ((self._lease_end, self.token, claim.message_id, claim.endpoint_id) for claim in self.taken[first:]),
        )
        self._db.executemany(_CLAIMED[queue], changes)
        return len(self.taken) - first

    def _take_heads(self, lane: _Lane, queue: Queue, failing: bool, most: int) -> tuple[Any, ...]:
        """Take what is due at the head of a lane; returns what changes in the lane's row."""
        now = self._now
        room = min(lane.width - lane.in_flight, most, rate_room(lane.rate_limit, lane.rate_us, now))
        # One more than there is room for: it tells when the lane is due again.
        heads: list[Any] = self._db.execute(_HEADS, (lane.endpoint_id, queue, room + 1)).fetchall()
        due = list(takewhile(lambda head: head[1] <= now, heads[:room]))
        in_flight = lane.in_flight + len(due)
        for place, head in enumerate(due, 1):
            message_id, _, attempts, spent, deaths, created_ms, asked, event_type, payload = head
            self.taken.append(
                Claim(
                    message_id,
                    lane.endpoint_id,
                    lane.app_id,
                    self.token,
                    lane.version,
                    event_type,
                    payload or b"",
                    created_ms,
                    attempts,
                    spent,
                    deaths,
                    lane.in_flight + place,
                    failing,
                    bool(asked),
                )
            )
        rate_us = next_rate(lane.rate_limit, lane.rate_us, len(due), now)
        wake = max(heads[len(due)][1], now, -(-rate_us // 1000)) if len(heads) > len(due) else None
        return in_flight, rate_us, wake, lane.endpoint_id


def claim(db: apsw.Connection, limit: int, lease_ms: int, failing_limit: int, now: int) -> Claims:
    claiming = _Claiming(db, limit, lease_ms, failing_limit, now)
    reserved = late_share(limit, claiming.token)
    late = claiming.take(Queue.LATE, reserved)
    claiming.take(Queue.FRESH, limit - late)
    if late == reserved:
        claiming.take(Queue.LATE, limit - len(claiming.taken))
    wait_ms = 0 if claiming.taken else _next_wake(db, now, failing_limit > 0)
    return Claims(tuple(claiming.taken), wait_ms, now)


def _next_wake(db: apsw.Connection, now: int, failing: bool) -> int | None:
    wakes: list[Any] = [
        db.execute(statement, (each,)).get
        for statement in _NEXT.values()
        for each in ((False, True) if failing else (False,))
    ]
    soonest = min((wake for wake in wakes if wake is not None), default=None)
    return None if soonest is None else max(soonest - now, 0)
