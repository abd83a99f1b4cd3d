"""What people look at and do by hand, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookfuse.core.delivery import Attempt, Chosen, Delivery, DeliveryState, Place
from hookfuse.core.message import Message
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL


async def message_of(db: Connection, app_id: str, id_or_uid: str) -> Message | None:
    row = await db.fetchrow(SQL["message"], app_id, id_or_uid)
    return None if row is None else Message(**{**row, "channels": tuple(row["channels"])})


async def delivery_of(db: Connection, message_id: str, endpoint_id: str) -> Delivery | None:
    row = await db.fetchrow(SQL["delivery"], message_id, endpoint_id)
    return None if row is None else _delivery(row)


async def deliveries(db: Connection, chosen: Chosen, after: Place | None, limit: int) -> list[Delivery]:
    rows = await db.fetch(SQL["deliveries"], *_choice(chosen), *(after or (None, None)), limit)
    return [_delivery(row) for row in rows]


async def count(db: Connection, chosen: Chosen) -> int:
    return int(await db.fetchval(SQL["count"], *_choice(chosen)))


async def attempts(db: Connection, message_id: str, endpoint_id: str | None) -> list[Attempt]:
    return [Attempt(**row) for row in await db.fetch(SQL["attempts"], message_id, endpoint_id)]


async def retry(db: Connection, pairs: Sequence[Place]) -> int:
    return int(await db.fetchval(SQL["retry"], *_columns(pairs)))


async def cancel(db: Connection, pairs: Sequence[Place]) -> int:
    return int(await db.fetchval(SQL["cancel"], *_columns(pairs)))


async def expunge(db: Connection, app_id: str, message_id: str) -> bool:
    """The lanes are held first: what comes back from a worker meanwhile is seen, and cancelled too."""
    await db.fetch(SQL["lock_lanes_of_message"], message_id)
    if not await db.fetchval(SQL["expunge"], message_id, app_id):
        return False
    await db.execute(SQL["cancel_message"], message_id)
    return True


def _choice(chosen: Chosen) -> tuple[Any, ...]:
    return (
        chosen.app_id,
        chosen.endpoint_id,
        None if chosen.states is None else [state.value for state in chosen.states],
        None if chosen.event_types is None else list(chosen.event_types),
        chosen.since_ms,
        chosen.until_ms,
    )


def _columns(pairs: Sequence[Place]) -> tuple[list[str], list[str]]:
    return [pair.message_id for pair in pairs], [pair.endpoint_id for pair in pairs]


def _delivery(row: Any) -> Delivery:
    return Delivery(**{**row, "state": DeliveryState(row["state"])})
