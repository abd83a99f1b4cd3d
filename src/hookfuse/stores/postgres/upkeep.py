"""What keeps the lanes and the tables in order."""

from __future__ import annotations

from collections.abc import Sequence

from hookfuse.core.duty import Tenure
from hookfuse.core.lanes import DAY_MS
from hookfuse.core.upkeep import Applied, Backlog, Sealed
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.duties import holds
from hookfuse.stores.postgres.queries import SQL


async def unblock(db: Connection, endpoint_ids: Sequence[str]) -> None:
    await db.execute(SQL["unblock_lanes"], list(endpoint_ids))


async def prune(db: Connection, older_than_ms: int, limit: int, tenure: Tenure | None) -> int:
    if not await holds(db, tenure):
        return 0
    candidates = await db.fetch(SQL["prune_candidates"], older_than_ms, limit)
    gone = await db.fetch(SQL["prune"], [row["id"] for row in candidates]) if candidates else []
    await db.execute(SQL["prune_keys"], DAY_MS)
    return len(gone)


async def backlog(db: Connection) -> Backlog:
    return Backlog(*await db.fetchrow(SQL["backlog"]))


async def sealed_page(db: Connection, after: str, limit: int) -> list[Sealed]:
    return [Sealed(*row) for row in await db.fetch(SQL["sealed_page"], after, limit)]


async def reseal(db: Connection, before: Sealed, after: Sealed) -> bool:
    return await db.fetchrow(SQL["reseal"], *before, after.secret, after.headers) is not None


async def applied_migrations(db: Connection) -> list[Applied]:
    return [Applied(*row) for row in await db.fetch(SQL["applied_migrations"])]
