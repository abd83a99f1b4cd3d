"""Accepting messages on SQLite: a job of the writer, a few statements however many messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import apsw

from hookfuse.core.delivery import Queue
from hookfuse.core.lanes import DAY_MS
from hookfuse.core.message import Accepted, Answer, NewMessage, Refused
from hookfuse.stores.sqlite.queries import SQL


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

    def __init__(self, db: apsw.Connection, routes: Routes, now: int) -> None:
        self._db = db
        self._routes = routes
        self._now = now
        self._messages: list[tuple[Any, ...]] = []
        self._deliveries: list[tuple[Any, ...]] = []
        self._keys: dict[tuple[str, str], tuple[bytes, Accepted]] = {}
        self._uids: set[tuple[str, str]] = set()
        self._rung: dict[str, int] = {}

    def add(self, message: NewMessage) -> Answer:
        routes = self._routes.of(self._db, message.app_id)
        if routes is None:
            return Refused("unknown_application")
        if message.idempotency_key is not None:
            known = self._known_key(message.app_id, message.idempotency_key)
            if known is not None:
                fingerprint, first = known
                if fingerprint != message.fingerprint:
                    return Refused("idempotency_mismatch")
                return Accepted(first.id, first.created_ms, first.deliveries, repeated=True)
        if message.uid is not None and self._uid_taken(message.app_id, message.uid):
            return Refused("uid_taken")
        return self._take(message, [route.endpoint_id for route in routes if route.takes(message)])

    def _take(self, message: NewMessage, endpoints: list[str]) -> Accepted:
        id_, app_id, now = message.id, message.app_id, self._now
        channels = json.dumps(message.channels) if message.channels else "[]"
        self._messages.append(
            (id_, app_id, message.uid, message.event_type, channels, message.deliver_ms, now, message.payload)
        )
        due = max(message.deliver_ms or now, now)
        for endpoint in endpoints:
            self._deliveries.append((id_, endpoint, app_id, Queue.FRESH, due, due, due, now))
            self._rung[endpoint] = min(due, self._rung.get(endpoint, due))
        accepted = Accepted(id_, now, len(endpoints))
        if message.idempotency_key is not None:
            self._keys[app_id, message.idempotency_key] = (message.fingerprint, accepted)
        if message.uid is not None:
            self._uids.add((app_id, message.uid))
        return accepted

    def _known_key(self, app_id: str, key: str) -> tuple[bytes, Accepted] | None:
        known = self._keys.get((app_id, key))
        if known is not None:
            return known
        row: Any = self._db.execute(SQL["accept_known_key"], (app_id, key, self._now - DAY_MS)).fetchone()
        if row is None:
            return None
        fingerprint, id_, deliveries, created_ms = row
        return fingerprint, Accepted(id_, created_ms, deliveries)

    def _uid_taken(self, app_id: str, uid: str) -> bool:
        if (app_id, uid) in self._uids:
            return True
        return self._db.execute(SQL["accept_known_uid"], (app_id, uid)).fetchone() is not None

    def write(self) -> None:
        self._db.executemany(SQL["accept_message"], self._messages)
        self._db.executemany(SQL["accept_delivery"], self._deliveries)
        self._db.executemany(SQL["accept_key"], self._key_rows())
        self._db.executemany(SQL["ring_fresh"], self._rung.items())

    def _key_rows(self) -> Iterator[tuple[Any, ...]]:
        for (app_id, key), (fingerprint, accepted) in self._keys.items():
            yield app_id, key, fingerprint, accepted.id, accepted.deliveries, accepted.created_ms


def accept(db: apsw.Connection, routes: Routes, messages: Sequence[NewMessage], now: int) -> list[Answer]:
    batch = _Batch(db, routes, now)
    answers = [batch.add(message) for message in messages]
    batch.write()
    return answers


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))
