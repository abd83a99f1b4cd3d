"""What keeps the lanes and the tables in order."""

from __future__ import annotations

from collections.abc import Sequence

from hookfuse.core.lanes import DAY_MS
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL


async def unblock(db: Connection, endpoint_ids: Sequence[str]) -> None:
    await db.execute(SQL["unblock_lanes"], list(endpoint_ids))


async def prune(db: Connection, older_than_ms: int, limit: int) -> int:
    candidates = await db.fetch(SQL["prune_candidates"], older_than_ms, limit)
    gone = await db.fetch(SQL["prune"], [row["id"] for row in candidates]) if candidates else []
    await db.execute(SQL["prune_keys"], DAY_MS)
    return len(gone)
