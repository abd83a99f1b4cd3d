"""Claiming: ring the bells, lock lanes that are free, take the heads of their queues.

Lanes that another claim holds are skipped, so claims never wait for one another; only ringing waits, for lanes in the
order of their ids. Heads are read by a statement of its own after the lanes are locked. Its snapshot is younger than
everything that was done to these lanes before, so a lane is never put to sleep over a delivery that it did not see.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hookfuse.core.delivery import Claim, Claims, DeliveryState, Queue
from hookfuse.core.lanes import late_share, rate_room
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.postgres.settle import End, settle_all

_BELLS = 1000
_CONTENDED_MS = 5
"""When to look again if others hold the lanes that are due."""

_LANES = {Queue.FRESH: "claim_fresh_lanes", Queue.LATE: "claim_late_lanes"}


async def claim(db: Connection, limit: int, lease_ms: int, failing_limit: int) -> Claims:
    bells, now_ms = await ring_bells(db)
    round_ = _Round(db, limit, lease_ms, failing_limit)
    reserved = late_share(limit, round_.token)
    late = await round_.take(Queue.LATE, reserved)
    await round_.take(Queue.FRESH, limit)
    if late == reserved:
        await round_.take(Queue.LATE, limit)
    claims = await round_.without_expunged()
    if claims or round_.lanes or bells == _BELLS:
        return Claims(claims, 0, now_ms)
    return Claims((), await _next_wake(db, failing_limit > 0), now_ms)


async def ring_bells(db: Connection) -> tuple[int, int]:
    """Tell lanes what was accepted for them; returns how many bells there were, and the time."""
    row = await db.fetchrow(SQL["ring_bells"], _BELLS)
    if row["deleted"]:
        # Accepted while the endpoint was being deleted.
        await db.execute(SQL["cancel_waiting"], row["deleted"])
    return int(row["bells"]), int(row["now"])


class _Round:
    """What one claim has taken so far."""

    def __init__(self, db: Connection, limit: int, lease_ms: int, failing_limit: int) -> None:
        self._db = db
        self._limit = limit
        self._lease_ms = lease_ms
        self._failing_room = failing_limit
        self._taken: list[Claim] = []
        self._expunged: list[Claim] = []
        self.token = secrets.randbits(62)
        self.lanes = 0
        """How many were looked at."""

    async def take(self, queue: Queue, most: int) -> int:
        """Take up to `most` of a queue, as far as there is room; returns how many."""
        most = min(most, self._limit - len(self._taken))
        if most <= 0:
            return 0
        failing_most = min(self._failing_room, most)
        lanes = await self._db.fetch(SQL[_LANES[queue]], most, failing_most, 2 * most + 64)
        self.lanes += len(lanes)
        if not lanes:
            return 0
        now = lanes[0]["now"]
        rows = await self._db.fetch(
            SQL["claim_deliveries"],
            [lane["endpoint_id"] for lane in lanes],
            _rooms(lanes, most, failing_most, now),
            [lane["failing"] for lane in lanes],
            [lane["rate_limit"] for lane in lanes],
            [lane["rate_us"] for lane in lanes],
            int(queue),
            most,
            failing_most,
            now,
            self._lease_ms,
            self.token,
        )
        self._keep(rows, {lane["endpoint_id"]: lane for lane in lanes})
        return len(rows)

    def _keep(self, rows: Sequence[Any], lanes: Mapping[str, Any]) -> None:
        taken: Counter[str] = Counter()
        for row in rows:
            lane = lanes[row["endpoint_id"]]
            taken[row["endpoint_id"]] += 1
            made = _claim(row, lane, self.token, lane["in_flight"] + taken[row["endpoint_id"]])
            (self._expunged if row["payload"] is None else self._taken).append(made)
            self._failing_room -= lane["failing"]

    async def without_expunged(self) -> tuple[Claim, ...]:
        """The claims; those whose content was expunged while they were in flight end here."""
        if self._expunged:
            await settle_all(self._db, [End(each, DeliveryState.CANCELLED, "expunged") for each in self._expunged])
        return tuple(self._taken)


def _rooms(lanes: Sequence[Any], most: int, failing_most: int, now: int) -> list[int]:
    """How many each lane may give: equal shares, its width, its rate."""
    failing = sum(lane["failing"] for lane in lanes)
    shares = {
        False: -(-most // max(len(lanes) - failing, 1)),
        True: -(-failing_most // max(failing, 1)),
    }
    return [
        min(
            shares[lane["failing"]],
            lane["width"] - lane["in_flight"],
            rate_room(lane["rate_limit"], lane["rate_us"], now),
        )
        for lane in lanes
    ]


def _claim(row: Any, lane: Any, token: int, in_flight: int) -> Claim:
    return Claim(
        row["message_id"],
        row["endpoint_id"],
        lane["app_id"],
        token,
        lane["version"],
        row["event_type"],
        row["payload"] or b"",
        row["created_ms"],
        row["attempts"],
        row["spent"],
        row["deaths"],
        in_flight,
        lane["failing"],
        row["asked"],
    )


async def _next_wake(db: Connection, failing: bool) -> int | None:
    row = await db.fetchrow(SQL["next_wake"], failing)
    return None if row["wake"] is None else max(row["wake"] - row["now"], _CONTENDED_MS)
