"""What ends a claim on SQLite: settle, defer, rescue. Jobs of the writer, each lane written once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from hookfuse.core.delivery import Attempt, Claim, Deferral, Place, Queue, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.stores.sql import storable
from hookfuse.stores.sqlite import tallies
from hookfuse.stores.sqlite.duties import holds
from hookfuse.stores.sqlite.queries import SQL

_ENDED = SQL["settle_ended"]
_RING = {Queue.FRESH: SQL["ring_fresh"], Queue.LATE: SQL["ring_late"]}


class _Ends:
    """Collects what became of claims, writes it, and knows whose lease was lost."""

    def __init__(self, db: apsw.Connection, now: int) -> None:
        self._db = db
        self._now = now
        self._ended: list[tuple[Place, tuple[Any, ...]]] = []
        self._returned: dict[Place, tuple[Any, ...]] = {}
        self._healthy: dict[Place, bool | None] = {}

    def end(
        self, place: Place, token: int, state: str, reason: str, made: int, spent: int, healthy: bool | None = None
    ) -> None:
        self._healthy[place] = healthy
        self._ended.append((place, (state, self._now, storable(reason), made, spent, *place, token)))

    def give_back(
        self, place: Place, token: int, due: int, reason: str, made: int, spent: int, healthy: bool | None = None
    ) -> None:
        self._healthy[place] = healthy
        self._returned[place] = (storable(reason), made, spent, due, self._now, *place, token)

    def write(self) -> set[Place]:
        """Returns those whose lease was still held; the others changed nothing."""
        held = self._write_ended()
        rung: dict[Queue, dict[str, int]] = {Queue.FRESH: {}, Queue.LATE: {}}
        returned: Iterable[Any] = self._db.executemany(SQL["settle_pending"], self._returned.values())
        for message_id, endpoint_id, queue, due in returned:
            held.add(Place(message_id, endpoint_id))
            if queue is not None:
                bells = rung[Queue(queue)]
                bells[endpoint_id] = min(due, bells.get(endpoint_id, due))
        self._write_lanes(held)
        for queue, bells in rung.items():
            self._db.executemany(_RING[queue], bells.items())
        return held

    def _write_ended(self) -> set[Place]:
        held: set[Place] = set()
        execute, changes = self._db.execute, self._db.changes
        for place, row in self._ended:
            # The count tells whether the lease was held; RETURNING would take as long as the change itself.
            execute(_ENDED, row)
            if changes():
                held.add(place)
        return held

    def _write_lanes(self, held: set[Place]) -> None:
        lanes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for place in held:
            lane = lanes[place.endpoint_id]
            healthy = self._healthy[place]
            lane[0] += 1
            lane[1] += healthy is True
            lane[2] += healthy is False
        self._db.executemany(SQL["settle_lane"], ((*lane, endpoint) for endpoint, lane in lanes.items()))


def settle(db: apsw.Connection, settlements: Sequence[Settlement], now: int) -> list[Claim]:
    ends = _Ends(db, now)
    for each in settlements:
        claim, made, spent = each.claim, int(each.attempt is not None), int(each.spent)
        place = Place(claim.message_id, claim.endpoint_id)
        if each.state.ended:
            ends.end(place, claim.token, each.state.value, each.reason, made, spent, each.healthy)
        else:
            ends.give_back(place, claim.token, now + each.delay_ms, each.reason, made, spent, each.healthy)
    held = ends.write()
    kept = [each for each in settlements if (each.claim.message_id, each.claim.endpoint_id) in held]
    db.executemany(SQL["settle_attempt"], (_attempt_row(each.attempt) for each in kept if each.attempt is not None))
    tallies.add(db, kept, now)
    if len(kept) == len(settlements):
        return []
    return [each.claim for each in settlements if (each.claim.message_id, each.claim.endpoint_id) not in held]


def _attempt_row(attempt: Attempt) -> tuple[Any, ...]:
    return (
        attempt.message_id,
        attempt.id,
        attempt.endpoint_id,
        attempt.app_id,
        attempt.number,
        attempt.at_ms,
        attempt.status,
        storable(attempt.trouble),
        attempt.latency_ms,
        attempt.manual,
        storable(attempt.detail),
        attempt.response,
    )


def defer(db: apsw.Connection, deferrals: Sequence[Deferral], now: int) -> None:
    ends = _Ends(db, now)
    blocked: dict[Place, int] = {}
    for each in deferrals:
        place = Place(each.claim.message_id, each.claim.endpoint_id)
        ends.give_back(place, each.claim.token, now + each.delay_ms, each.reason, 0, 0)
        if each.wait_ms > 0:
            blocked[place] = now + each.wait_ms
    held = ends.write()
    db.executemany(SQL["block_lane"], ((until, place.endpoint_id) for place, until in blocked.items() if place in held))


def unblock(db: apsw.Connection, endpoint_ids: Iterable[str]) -> None:
    db.executemany(SQL["unblock_lane"], ((endpoint,) for endpoint in endpoint_ids))


def end_leases(db: apsw.Connection) -> None:
    db.execute(SQL["end_leases"])


def rescue(db: apsw.Connection, deaths: int, limit: int, tenure: Tenure | None, now: int) -> Rescued:
    if not holds(db, tenure):
        return Rescued(0)
    lost: list[Any] = db.execute(SQL["lost_leases"], (now, limit)).fetchall()
    db.executemany(SQL["count_death"], ((message_id, endpoint_id) for message_id, endpoint_id, _, _ in lost))
    ends = _Ends(db, now)
    quarantined = []
    for message_id, endpoint_id, token, died in lost:
        place = Place(message_id, endpoint_id)
        if died + 1 >= deaths:
            quarantined.append(place)
            ends.end(place, token, "failed", "quarantined", 0, 0)
        else:
            ends.give_back(place, token, now, "worker_lost", 0, 0)
    ends.write()
    return Rescued(len(lost) - len(quarantined), tuple(quarantined))
