"""Outcomes by endpoint and slot, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apsw

from hookfuse.core.duty import Tenure
from hookfuse.core.tally import Guarded, Seen, Settled, tallies
from hookfuse.core.window import Counts
from hookfuse.stores.sqlite.bulk import Many
from hookfuse.stores.sqlite.duties import holds
from hookfuse.stores.sqlite.queries import SQL

_ADD = Many(SQL["add_tallies"])


def add(db: apsw.Connection, settled: Iterable[Settled], now: int) -> None:
    _ADD.run(db, tallies(settled, now))


def seen(db: apsw.Connection, back_ms: int, others: Mapping[str, int], now: int) -> list[Seen]:
    furthest = max(back_ms, *others.values()) if others else back_ms
    values = {"now": now, "back": back_ms, "others": json.dumps(dict(others)), "furthest": furthest}
    return [_seen(row) for row in db.execute(SQL["seen"], values)]


def seen_of(db: apsw.Connection, backs: Mapping[str, int], now: int) -> list[Seen]:
    values = {"now": now, "backs": json.dumps(dict(backs)), "furthest": max(backs.values())}
    return [_seen(row) for row in db.execute(SQL["seen_of"], values)]


def guarded(db: apsw.Connection, endpoint_ids: Sequence[str]) -> list[Guarded]:
    return [_guarded(row) for row in db.execute(SQL["guarded"], (json.dumps(list(endpoint_ids)),))]


def guarded_by(db: apsw.Connection, key: str) -> list[Guarded]:
    app_id, _, name = key.partition("/")
    return [_guarded(row) for row in db.execute(SQL["guarded_by"], {"app": app_id, "name": name})]


def unguarded(db: apsw.Connection, keys: Sequence[str]) -> list[str]:
    rows: Any = db.execute(SQL["unguarded"], (json.dumps(list(keys)),))
    return [key for (key,) in rows]


def stored_policies(db: apsw.Connection) -> list[Mapping[str, Any]]:
    rows: Any = db.execute(SQL["stored_policies"])
    return [found for (text,) in rows if (found := json.loads(text)) is not None]


def prune(db: apsw.Connection, older_than_ms: int, tenure: Tenure | None, now: int) -> int:
    if not holds(db, tenure):
        return 0
    db.execute(SQL["prune_tallies"], (now - older_than_ms,))
    return db.changes()


def _seen(row: Any) -> Seen:
    endpoint_id, version, ok, failed, slow, latency_ms = row
    return Seen(endpoint_id, version, Counts(ok, failed, slow, ok + failed, latency_ms))


def _guarded(row: Any) -> Guarded:
    id_, version, key, text = row
    return Guarded(id_, version, key, None if text is None else json.loads(text))
