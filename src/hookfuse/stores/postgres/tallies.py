"""Outcomes by endpoint and slot, on Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hookfuse.core.duty import Tenure
from hookfuse.core.tally import Guarded, Seen
from hookfuse.core.window import Counts
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.duties import holds
from hookfuse.stores.postgres.queries import SQL


async def seen(db: Connection, back_ms: int, others: Mapping[str, int]) -> list[Seen]:
    furthest = max(back_ms, *others.values()) if others else back_ms
    rows = await db.fetch(SQL["seen"], back_ms, list(others), list(others.values()), furthest)
    return [_seen(row) for row in rows]


async def seen_of(db: Connection, backs: Mapping[str, int]) -> list[Seen]:
    rows = await db.fetch(SQL["seen_of"], list(backs), list(backs.values()), max(backs.values()))
    return [_seen(row) for row in rows]


async def guarded(db: Connection, endpoint_ids: Sequence[str]) -> list[Guarded]:
    return [_guarded(row) for row in await db.fetch(SQL["guarded"], list(endpoint_ids))]


async def guarded_by(db: Connection, key: str) -> list[Guarded]:
    app_id, _, name = key.partition("/")
    return [_guarded(row) for row in await db.fetch(SQL["guarded_by"], app_id, name)]


async def unguarded(db: Connection, keys: Sequence[str]) -> list[str]:
    return [row["key"] for row in await db.fetch(SQL["unguarded"], list(keys))]


async def stored_policies(db: Connection) -> list[Mapping[str, Any]]:
    rows = await db.fetch(SQL["stored_policies"])
    return [found for (text,) in rows if (found := json.loads(text)) is not None]


async def prune(db: Connection, older_than_ms: int, tenure: Tenure | None) -> int:
    if not await holds(db, tenure):
        return 0
    done = await db.execute(SQL["prune_tallies"], older_than_ms)
    return int(done.rpartition(" ")[2])


def _seen(row: Any) -> Seen:
    endpoint_id, version, ok, failed, slow, latency_ms = row
    return Seen(endpoint_id, version, Counts(ok, failed, slow, ok + failed, latency_ms))


def _guarded(row: Any) -> Guarded:
    id_, version, key, text = row
    return Guarded(id_, version, key, None if text is None else json.loads(text))
