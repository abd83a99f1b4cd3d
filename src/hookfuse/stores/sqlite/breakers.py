"""The table of breakers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from hookfuse.stores.kept import Kept, Row
from hookfuse.stores.sqlite.bulk import Many
from hookfuse.stores.sqlite.queries import SQL

_KEEP = Many(SQL["keep_breakers"])


def read(db: apsw.Connection) -> Kept:
    last: Any = db.execute(SQL["breaker_sequence"]).get
    found: list[Any] = db.execute(SQL["read_breakers"]).fetchall()
    return Kept(last, tuple(Row(*row) for row in found))


def write(db: apsw.Connection, kept: Sequence[Row], last: int) -> None:
    _KEEP.run(db, kept)
    db.execute(SQL["keep_breaker_sequence"], (last,))


def forget(db: apsw.Connection, now: int) -> None:
    db.execute(SQL["forget_breakers"], (now,))
