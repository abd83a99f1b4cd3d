"""What ends a claim on SQLite: settle, defer, rescue. Jobs of the writer, each lane written once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from hookfuse.core.delivery import Attempt, Claim, Deferral, Place, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.stores.sql import storable
from hookfuse.stores.sqlite import tallies
from hookfuse.stores.sqlite.bulk import Many, gathered
from hookfuse.stores.sqlite.duties import holds
from hookfuse.stores.sqlite.queries import SQL

_HELD = Many(SQL["settle_held"])
_ENDED = Many(SQL["settle_ended"])
_PENDING = Many(SQL["settle_pending"])
_LANES = Many(SQL["settle_lanes"])
_ATTEMPTS = Many(SQL["settle_attempts"])
_BLOCK = Many(SQL["block_lanes"])
_UNBLOCK = Many(SQL["unblock_lanes"])
_OF_TOKENS = Many(SQL["leases_of_tokens"])
_DEATHS = Many(SQL["count_deaths"])
RING_RETURNED = Many(SQL["ring_returned"])


class _End(NamedTuple):
    """What became of a claim. `state` None: it waits again, until `due`."""

    place: Place
    token: int
    state: str | None
    due: int | None
    reason: str
    made: int
    spent: int
    healthy: bool | None = None


class _Ends:
    """Collects what became of claims, writes it, and knows whose lease was lost."""

    def __init__(self, db: apsw.Connection, now: int) -> None:
        self._db = db
        self._now = now
        self._ends: list[_End] = []

    def end(
        self, place: Place, token: int, state: str, reason: str, made: int, spent: int, healthy: bool | None = None
    ) -> None:
        self._ends.append(_End(place, token, state, None, reason, made, spent, healthy))

    def give_back(
        self, place: Place, token: int, due: int, reason: str, made: int, spent: int, healthy: bool | None = None
    ) -> None:
        self._ends.append(_End(place, token, None, due, reason, made, spent, healthy))

    def write(self) -> set[int]:
        """Returns the numbers of those whose lease was still held; the others changed nothing."""
        claims = [(number, *end.place, end.token) for number, end in enumerate(self._ends)]
        first: dict[Place, int] = {}
        for number in sorted(_HELD.gather(self._db, claims)):
            # Of two ends of one claim the first counts.
            first.setdefault(self._ends[number].place, number)
        held = [self._ends[number] for number in first.values()]
        ended, returned = [], []
        for place, _, state, due, reason, made, spent, _ in held:
            if state is None:
                returned.append((*place, due, storable(reason), made, spent, self._now))
            else:
                ended.append((*place, state, storable(reason), made, spent))
        _ENDED.run(self._db, ended, self._now)
        _PENDING.run(self._db, returned)
        RING_RETURNED.run(self._db, [row[:2] for row in returned])
        self._write_lanes(held)
        return set(first.values())

    def _write_lanes(self, held: Iterable[_End]) -> None:
        lanes: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
        for end in held:
            lane = lanes[end.place.endpoint_id]
            lane[0] += 1
            lane[1] += end.healthy is True
            lane[2] += end.healthy is False
        _LANES.run(self._db, [(endpoint, *lane) for endpoint, lane in lanes.items()])


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
    kept = [each for number, each in enumerate(settlements) if number in held]
    _ATTEMPTS.run(db, [_attempt_row(each.attempt) for each in kept if each.attempt is not None])
    tallies.add(db, kept, now)
    return [each.claim for number, each in enumerate(settlements) if number not in held]


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
    for each in deferrals:
        place = Place(each.claim.message_id, each.claim.endpoint_id)
        ends.give_back(place, each.claim.token, now + each.delay_ms, each.reason, 0, 0)
    held = ends.write()
    waits = [each for number, each in enumerate(deferrals) if number in held and each.wait_ms > 0]
    _BLOCK.run(db, list({each.claim.endpoint_id: now + each.wait_ms for each in waits}.items()))


def disclaim(db: apsw.Connection, tokens: Sequence[int], now: int) -> Mapping[int, int]:
    found = _OF_TOKENS.gather(db, [(token,) for token in tokens])
    ends = _Ends(db, now)
    for message_id, endpoint_id, token in found:
        ends.give_back(Place(message_id, endpoint_id), token, now, "released", 0, 0)
    ends.write()
    return Counter(token for _, _, token in found)


def unblock(db: apsw.Connection, endpoint_ids: Iterable[str]) -> None:
    _UNBLOCK.run(db, [(endpoint,) for endpoint in endpoint_ids])


def end_leases(db: apsw.Connection) -> None:
    db.execute(SQL["end_leases"])


def rescue(db: apsw.Connection, deaths: int, limit: int, tenure: Tenure | None, now: int) -> Rescued:
    if not holds(db, tenure):
        return Rescued(0)
    lost = gathered(db, SQL["lost_leases"], (now, limit))
    _DEATHS.run(db, [(message_id, endpoint_id) for message_id, endpoint_id, _, _ in lost])
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
    return Rescued(len(lost) - len(quarantined), tuple(quarantined), more=len(lost) == limit)
