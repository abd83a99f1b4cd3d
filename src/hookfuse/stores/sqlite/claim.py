"""Claiming on SQLite: a job of the writer. Lanes first, then the first few deliveries of each."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import chain, product, takewhile
from typing import Any, NamedTuple, TypeAlias

import apsw

from hookfuse.core.delivery import Claim, Claims, Queue
from hookfuse.core.lanes import fair_order, late_share, next_rate, rate_room, reaches, shares
from hookfuse.stores.sqlite.bulk import Many, decode, gathered
from hookfuse.stores.sqlite.queries import SQL

_NAMES = {Queue.FRESH: "fresh", Queue.LATE: "late"}
_LANES = {queue: SQL[f"claim_{name}_lanes"] for queue, name in _NAMES.items()}
_TURNS = {queue: SQL[f"{name}_turns"] for queue, name in _NAMES.items()}
_LANES_OF = {queue: Many(SQL[f"{name}_lanes_of"]) for queue, name in _NAMES.items()}
_CLAIMED = {queue: Many(SQL[f"claimed_{name}"]) for queue, name in _NAMES.items()}
_HEADS = Many(SQL["claim_heads"])
_DELIVERIES = Many(SQL["claim_deliveries"])
_MESSAGES = Many(SQL["claim_messages"])
_MESSAGES_AT_ONCE = 128
_LANES_BEYOND = 64

Turns: TypeAlias = dict[tuple[Queue, bool], str]
"""Which application had the last turn, by queue and whether failing."""


class _Lane(NamedTuple):
    endpoint_id: str
    app_id: str
    width: int
    in_flight: int
    rate_limit: int | None
    rate_us: int
    version: int


class _Taken(NamedTuple):
    """A delivery at the head of its lane that is claimed."""

    lane: _Lane
    in_flight: int
    failing: bool
    head: Any


class _Claiming:
    """One claim: up to `limit` deliveries, of failing lanes up to `failing_limit`."""

    def __init__(
        self,
        db: apsw.Connection,
        limit: int,
        lease_ms: int,
        failing_limit: int,
        token: int | None,
        turns: Turns,
        now: int,
    ) -> None:
        self._db = db
        self._turns = turns
        self._now = now
        self._lease_end = now + lease_ms
        self._room = {False: limit, True: min(failing_limit, limit)}
        self._wakes = _wakes(db)
        self.token = secrets.randbits(62) if token is None else token
        self.taken: list[_Taken] = []

    def take(self, queue: Queue, most: int) -> int:
        """Take up to `most` of a queue, from healthy lanes before failing ones; returns how many."""
        before = len(self.taken)
        for failing in (False, True):
            wake = self._wakes[queue, failing]
            left = min(most - (len(self.taken) - before), self._room[failing])
            if left > 0 and wake is not None and wake <= self._now:
                count = self._take_lanes(queue, failing, left)
                self._room[False] -= count
                self._room[True] -= count if failing else 0
        return len(self.taken) - before

    def _take_lanes(self, queue: Queue, failing: bool, most: int) -> int:
        lanes = self._lanes(queue, failing, most)
        if not lanes:
            return 0
        apps = [lane.app_id for lane in lanes]
        reach = reaches(apps, most)
        heads = self._heads(queue, lanes, reach)
        due = [self._due(lane, heads[lane.endpoint_id][:most]) for lane, most in zip(lanes, reach, strict=True)]
        first = len(self.taken)
        # A lane that was due and gets nothing keeps its turn.
        changes = [
            self._take_heads(lane, heads[lane.endpoint_id], failing, share)
            for lane, its_due, share in zip(lanes, due, shares(apps, due, most), strict=True)
            if share or not its_due
        ]
        places = [(taken.head[0], taken.lane.endpoint_id) for taken in self.taken[first:]]
        _DELIVERIES.run(self._db, places, self._lease_end, self.token)
        _CLAIMED[queue].run(self._db, changes)
        return len(self.taken) - first

    def _lanes(self, queue: Queue, failing: bool, most: int) -> Sequence[_Lane]:
        """Those that have waited longest. Where few applications may have them all, some of each application first."""
        enough = 2 * most + _LANES_BEYOND
        rows = gathered(self._db, _LANES[queue], (failing, self._now, enough + 1))
        lanes = fair_order([_Lane(*row) for row in rows])
        if len(lanes) > enough:
            apps = [(app,) for app in self._whose_turn(queue, failing, most)]
            of_each = enough // max(1, len(apps)) + 1
            found = chain(*_LANES_OF[queue].gather(self._db, apps, failing, self._now, of_each))
            in_turn = fair_order([_Lane(*row) for row in found])
            lanes = list({lane.endpoint_id: lane for lane in (*in_turn, *lanes)}.values())
        return lanes[:most]

    def _whose_turn(self, queue: Queue, failing: bool, most: int) -> list[str]:
        """Applications that have something due, from the one after the last turn on, and around."""
        last = self._turns.get((queue, failing), "")
        asked = partial(gathered, self._db, _TURNS[queue])
        walk = asked((failing, self._now, last, most))
        if len(walk) < most:
            walk += takewhile(lambda step: step[0] <= last, asked((failing, self._now, "", most - len(walk))))
        self._turns[queue, failing] = walk[-1][0]
        return [app for app, is_due in walk if is_due]

    def _heads(self, queue: Queue, lanes: Sequence[_Lane], reach: Sequence[int]) -> dict[str, list[Any]]:
        """The first deliveries of each lane, one more than its reach: it tells when the lane is due again."""
        least = min(reach)
        by_reach = defaultdict(list)
        for lane, its_reach in zip(lanes, reach, strict=True):
            # In few sizes: each is a statement.
            size = least if its_reach == least else 1 << (its_reach - 1).bit_length()
            by_reach[size].append((lane.endpoint_id,))
        found = (_HEADS.gather(self._db, of_size, queue, size + 1) for size, of_size in by_reach.items())
        return dict(chain.from_iterable(found))

    def _due(self, lane: _Lane, heads: list[Any]) -> int:
        room = min(lane.width - lane.in_flight, rate_room(lane.rate_limit, lane.rate_us, self._now))
        return sum(1 for _ in takewhile(lambda head: head[1] <= self._now, heads[:room]))

    def _take_heads(self, lane: _Lane, heads: list[Any], failing: bool, share: int) -> tuple[Any, ...]:
        """Take the first few of a lane; returns what changes in the lane's row."""
        now = self._now
        self.taken += [
            _Taken(lane, lane.in_flight + place, failing, head) for place, head in enumerate(heads[:share], 1)
        ]
        rate_us = next_rate(lane.rate_limit, lane.rate_us, share, now)
        wake = max(heads[share][1], now, -(-rate_us // 1000)) if len(heads) > share else None
        return lane.endpoint_id, lane.in_flight + share, rate_us, wake

    def claims(self) -> list[Claim]:
        claims = []
        for start in range(0, len(self.taken), _MESSAGES_AT_ONCE):
            taken = self.taken[start : start + _MESSAGES_AT_ONCE]
            for (lane, in_flight, failing, head), (event_type, payload) in zip(
                taken, self._messages(taken), strict=True
            ):
                message_id, _, attempts, spent, deaths, created_ms, asked = head
                claims.append(
                    Claim(
                        message_id,
                        lane.endpoint_id,
                        lane.app_id,
                        self.token,
                        lane.version,
                        event_type,
                        payload,
                        created_ms,
                        attempts,
                        spent,
                        deaths,
                        in_flight,
                        failing,
                        bool(asked),
                    )
                )
        return claims

    def _messages(self, taken: Sequence[_Taken]) -> list[tuple[str, bytes]]:
        """Their types and payloads."""
        messages: dict[int, tuple[str, bytes]] = {}
        for text, payloads in _MESSAGES.ask(self._db, [(number, each.head[0]) for number, each in enumerate(taken)]):
            begin = 0
            for number, event_type, length in decode(text):
                messages[number] = event_type, payloads[begin : begin + length]
                begin += length
        return [messages[number] for number in range(len(taken))]


def claim(
    db: apsw.Connection, limit: int, lease_ms: int, failing_limit: int, token: int | None, turns: Turns, now: int
) -> Claims:
    claiming = _Claiming(db, limit, lease_ms, failing_limit, token, turns, now)
    reserved = late_share(limit, claiming.token)
    late = claiming.take(Queue.LATE, reserved)
    claiming.take(Queue.FRESH, limit - late)
    if late == reserved:
        claiming.take(Queue.LATE, limit - len(claiming.taken))
    if claiming.taken:
        return Claims(tuple(claiming.claims()), 0, now)
    wakes = [
        wake for (_, failing), wake in _wakes(db).items() if wake is not None and (failing_limit > 0 or not failing)
    ]
    return Claims((), max(min(wakes) - now, 0) if wakes else None, now)


def _wakes(db: apsw.Connection) -> dict[tuple[Queue, bool], int | None]:
    """When the first lane of each kind is due."""
    row: Any = db.execute(SQL["next_wakes"]).fetchone()
    return dict(zip(product(_NAMES, (False, True)), row, strict=True))
