"""Breakers' standings, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence

from hookfuse.core.duty import Tenure
from hookfuse.core.standing import Memory, Standing
from hookfuse.core.state import Override
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.duties import holds
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.sql import storable


async def read(db: Connection) -> list[Standing]:
    rows = await db.fetch(SQL["standings"])
    return [Standing(key, Override(over), until, off, why, last) for key, over, until, off, why, last in rows]


async def keep(db: Connection, kept: Sequence[Standing], gone: Sequence[Standing], tenure: Tenure | None) -> bool:
    if not await holds(db, tenure):
        return False
    if kept:
        rows = [each._replace(reason=storable(each.reason)) for each in kept]
        await db.execute(SQL["keep_standings"], *(list(column) for column in zip(*rows, strict=True)))
    if gone:
        await db.execute(SQL["forget_standings"], [each.key for each in gone], [each.generation for each in gone])
    return True


async def memory(db: Connection) -> Memory:
    return Memory(*await db.fetchrow(SQL["breaker_memory"]))


async def keep_memory(db: Connection, memory: Memory, tenure: Tenure | None) -> None:
    if await holds(db, tenure):
        await db.execute(SQL["keep_breaker_memory"], *memory)
