"""What operators' tools need of SQLite."""

from __future__ import annotations

from typing import Any

import apsw

from hookfuse.core.upkeep import Applied, Backlog, Sealed
from hookfuse.stores.sqlite.queries import SQL


def backlog(db: apsw.Connection, now: int) -> Backlog:
    lanes: Any = db.execute(SQL["backlog_lanes"], {"now": now}).fetchone()
    counts: Any = db.execute(SQL["backlog_waiting"], {"now": now}).fetchone()
    in_flight, *due = lanes
    waiting, held, oldest = counts
    first = min((each for each in due if each is not None), default=None)
    return Backlog(waiting, held, in_flight, first, now, oldest)


def sealed_page(db: apsw.Connection, after: str, limit: int) -> list[Sealed]:
    rows: list[Any] = db.execute(SQL["sealed_page"], {"after": after, "limit": limit}).fetchall()
    return [Sealed(*row) for row in rows]


def reseal(db: apsw.Connection, before: Sealed, after: Sealed) -> bool:
    db.execute(SQL["reseal"], (after.secret, after.headers, *before))
    return db.changes() > 0


def applied_migrations(db: apsw.Connection) -> list[Applied]:
    rows: list[Any] = db.execute(SQL["applied_migrations"]).fetchall()
    return [Applied(*row) for row in rows]
