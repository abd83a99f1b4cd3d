"""Accepting messages on SQLite: a job of the writer, a few statements however many messages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from hookfuse.core.lanes import DAY_MS
from hookfuse.core.message import Accepted, Answer, NewMessage, Refused
from hookfuse.stores.sqlite.bulk import Many
from hookfuse.stores.sqlite.queries import SQL

_KNOWN_KEYS = Many(SQL["accept_known_keys"])
_KNOWN_UIDS = Many(SQL["accept_known_uids"])
_MESSAGES = Many(SQL["accept_messages"])
_KEYS = Many(SQL["accept_keys"])
_DELIVERIES = Many(SQL["accept_deliveries"])
RING_FRESH = Many(SQL["ring_fresh"])


class _Route(NamedTuple):
    endpoint_id: str
    event_types: frozenset[str] | None
    channels: frozenset[str] | None

    def takes(self, message: NewMessage) -> bool:
        if self.event_types is not None and message.event_type not in self.event_types:
            return False
        return self.channels is None or not self.channels.isdisjoint(message.channels)


class Routes:
    """The endpoints of applications, kept between batches. The writer alone uses it and makes it forget."""

    def __init__(self) -> None:
        self._known: dict[str, list[_Route]] = {}

    def forget(self) -> None:
        self._known.clear()

    def of(self, db: apsw.Connection, app_id: str) -> list[_Route] | None:
        """None: there is no such application."""
        known = self._known.get(app_id)
        if known is None:
            if db.execute(SQL["accept_application"], (app_id,)).fetchone() is None:
                return None
            rows: list[Any] = db.execute(SQL["accept_routes"], (app_id,)).fetchall()
            known = self._known[app_id] = [
                _Route(id_, _names(types), _names(channels)) for id_, types, channels in rows
            ]
        return known


class _Batch:
    """What a batch of messages adds to the tables."""

    def __init__(self, db: apsw.Connection, routes: Routes, messages: Sequence[NewMessage], now: int) -> None:
        self._db = db
        self._routes = routes
        self._now = now
        self._known = _known_keys(db, messages, now)
        self._uids = _taken_uids(db, messages)
        self._messages: list[tuple[Any, ...]] = []
        self._deliveries: list[tuple[Any, ...]] = []
        self._keys: list[tuple[Any, ...]] = []
        self._rung: dict[str, int] = {}

    def add(self, message: NewMessage) -> Answer:
        routes = self._routes.of(self._db, message.app_id)
        if routes is None:
            return Refused("unknown_application")
        if message.idempotency_key is not None:
            known = self._known.get((message.app_id, message.idempotency_key))
            if known is not None:
                fingerprint, first = known
                if fingerprint != message.fingerprint:
                    return Refused("idempotency_mismatch")
                return Accepted(first.id, first.created_ms, first.deliveries, repeated=True)
        if message.uid is not None and (message.app_id, message.uid) in self._uids:
            return Refused("uid_taken")
        return self.take(message, [route.endpoint_id for route in routes if route.takes(message)])

    def take(self, message: NewMessage, endpoints: list[str]) -> Accepted:
        id_, app_id, now = message.id, message.app_id, self._now
        channels = json.dumps(message.channels) if message.channels else "[]"
        self._messages.append(
            (id_, app_id, message.uid, message.event_type, channels, message.deliver_ms, now, message.payload)
        )
        due = max(message.deliver_ms or now, now)
        for endpoint in endpoints:
            self._deliveries.append((id_, endpoint, app_id, due, now))
            self._rung[endpoint] = min(due, self._rung.get(endpoint, due))
        accepted = Accepted(id_, now, len(endpoints))
        key = message.idempotency_key
        if key is not None:
            self._keys.append((app_id, key, message.fingerprint, id_, accepted.deliveries, now))
            self._known[app_id, key] = (message.fingerprint, accepted)
        if message.uid is not None:
            self._uids.add((app_id, message.uid))
        return accepted

    def write(self) -> None:
        _MESSAGES.run(self._db, self._messages)
        _KEYS.run(self._db, self._keys)
        _DELIVERIES.run(self._db, self._deliveries)
        RING_FRESH.run(self._db, list(self._rung.items()))


def accept(db: apsw.Connection, routes: Routes, messages: Sequence[NewMessage], now: int) -> list[Answer]:
    batch = _Batch(db, routes, messages, now)
    answers = [batch.add(message) for message in messages]
    batch.write()
    return answers


def accept_for(db: apsw.Connection, message: NewMessage, endpoint_id: str, now: int) -> Answer:
    """A message for one endpoint alone, whatever it listens to."""
    if db.execute(SQL["lane_is_open"], {"endpoint": endpoint_id, "app": message.app_id}).fetchone() is None:
        return Refused("unknown_application")
    batch = _Batch(db, Routes(), (), now)
    accepted = batch.take(message, [endpoint_id])
    batch.write()
    return accepted


def _known_keys(
    db: apsw.Connection, messages: Sequence[NewMessage], now: int
) -> dict[tuple[str, str], tuple[bytes, Accepted]]:
    asked = [(each.app_id, each.idempotency_key) for each in messages if each.idempotency_key is not None]
    known = _KNOWN_KEYS.gather(db, asked, now - DAY_MS)
    return {
        (app_id, key): (bytes.fromhex(fingerprint), Accepted(id_, created_ms, deliveries))
        for app_id, key, fingerprint, id_, deliveries, created_ms in known
    }


def _taken_uids(db: apsw.Connection, messages: Sequence[NewMessage]) -> set[tuple[str, str]]:
    asked = [(each.app_id, each.uid) for each in messages if each.uid is not None]
    return {(app_id, uid) for app_id, uid in _KNOWN_UIDS.gather(db, asked)}


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))
