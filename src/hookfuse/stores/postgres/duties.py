"""Who holds which duty, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookfuse.core.duty import Duty, Tenure
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL


async def hold(db: Connection, duties: Sequence[Duty], holder: str, lease_ms: int) -> list[Tenure]:
    names = [duty.value for duty in duties]
    return [_tenure(row) for row in await db.fetch(SQL["hold_duties"], names, holder, lease_ms)]


async def give_up(db: Connection, holder: str) -> None:
    await db.execute(SQL["give_up_duties"], holder)


async def held(db: Connection) -> list[Tenure]:
    return [_tenure(row) for row in await db.fetch(SQL["duties"])]


async def holds(db: Connection, tenure: Tenure | None) -> bool:
    """Whether a write of this tenure may be made; without one, it is nobody's duty."""
    return tenure is None or await db.fetchval(SQL["holds_duty"], tenure.duty.value, tenure.fence) is not None


def _tenure(row: Any) -> Tenure:
    duty, *others = row
    return Tenure(Duty(duty), *others)
