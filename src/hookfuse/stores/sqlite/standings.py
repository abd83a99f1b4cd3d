"""Breakers' standings, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from hookfuse.core.duty import Tenure
from hookfuse.core.standing import Memory, Standing
from hookfuse.core.state import Override
from hookfuse.stores.sql import storable
from hookfuse.stores.sqlite.duties import holds
from hookfuse.stores.sqlite.queries import SQL


def read(db: apsw.Connection) -> list[Standing]:
    rows: Any = db.execute(SQL["standings"])
    return [Standing(key, Override(over), until, bool(off), why, last) for key, over, until, off, why, last in rows]


def keep(db: apsw.Connection, kept: Sequence[Standing], gone: Sequence[Standing], tenure: Tenure | None) -> bool:
    if not holds(db, tenure):
        return False
    db.executemany(SQL["keep_standing"], [each._replace(reason=storable(each.reason)) for each in kept])
    db.executemany(SQL["forget_standing"], [(each.key, each.generation) for each in gone])
    return True


def memory(db: apsw.Connection) -> Memory:
    row: Any = db.execute(SQL["breaker_memory"]).fetchone()
    return Memory(*row)


def keep_memory(db: apsw.Connection, memory: Memory, tenure: Tenure | None) -> None:
    if holds(db, tenure):
        db.execute(SQL["keep_breaker_memory"], memory)
