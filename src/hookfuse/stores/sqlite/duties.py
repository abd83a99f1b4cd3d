"""Who holds which duty, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw

from hookfuse.core.duty import Duty, Tenure
from hookfuse.stores.sqlite.queries import SQL


def hold(db: apsw.Connection, duties: Sequence[Duty], holder: str, lease_ms: int, now: int) -> list[Tenure]:
    rows: Any = db.executemany(SQL["hold_duty"], [(duty.value, holder, now, now + lease_ms) for duty in duties])
    return [_tenure(row) for row in rows]


def give_up(db: apsw.Connection, holder: str, now: int) -> None:
    db.execute(SQL["give_up_duties"], (holder, now))


def end_all(db: apsw.Connection) -> None:
    db.execute(SQL["end_duties"])


def held(db: apsw.Connection, now: int) -> list[Tenure]:
    return [_tenure(row) for row in db.execute(SQL["duties"], (now,)).fetchall()]


def holds(db: apsw.Connection, tenure: Tenure | None) -> bool:
    """Whether a write of this tenure may be made; without one, it is nobody's duty."""
    if tenure is None:
        return True
    return db.execute(SQL["holds_duty"], (tenure.duty.value, tenure.fence)).fetchone() is not None


def _tenure(row: Any) -> Tenure:
    duty, *others = row
    return Tenure(Duty(duty), *others)
