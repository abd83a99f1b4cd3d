"""Lists in pages, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from hookfuse.core.delivery import Attempt, Chosen, Delivery, DeliveryState
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.listing import AttemptFilter, MessageFilter
from hookfuse.core.message import Message
from hookfuse.core.paging import Span
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.directory import read_application, read_endpoint
from hookfuse.stores.postgres.queries import SQL

_OPEN = frozenset({DeliveryState.PENDING, DeliveryState.SENDING})
_LOST = frozenset({DeliveryState.FAILED, DeliveryState.CANCELLED})
_ATTEMPT = Attempt._fields
_DELIVERY = tuple(each.name for each in fields(Delivery))


async def by_id(db: Connection, name: str, span: Span, *values: Any) -> list[Any]:
    return await db.fetch(_statement(name, span), span.after.id, span.before.id, span.limit, *values)


async def by_time(db: Connection, name: str, span: Span, *values: Any) -> list[Any]:
    bounds = (span.after.at_ms, span.after.id, span.before.at_ms, span.before.id)
    return await db.fetch(_statement(name, span), *bounds, span.limit, *values)


async def _by_place(db: Connection, name: str, span: Span, *values: Any) -> list[Any]:
    bounds = (span.after.id, span.after.part, span.before.id, span.before.part)
    return await db.fetch(_statement(name, span), *bounds, span.limit, *values)


def _statement(name: str, span: Span) -> str:
    return SQL[f"{name}_back" if span.backwards else name]


async def applications(db: Connection, span: Span) -> list[Application]:
    return [read_application(row) for row in await by_id(db, "applications_page", span)]


async def endpoints(db: Connection, app_id: str, span: Span) -> list[Endpoint]:
    return [read_endpoint(row) for row in await by_id(db, "endpoints_page", span, app_id)]


async def messages(db: Connection, chosen: MessageFilter, span: Span) -> list[Message]:
    values = (chosen.app_id, _list(chosen.event_types), chosen.channel)
    return [_message(row) for row in await by_time(db, "messages_page", span, *values)]


async def missing(db: Connection, app_id: str, endpoint_id: str, span: Span) -> list[Message]:
    return [_message(row) for row in await by_time(db, "missing_page", span, app_id, endpoint_id)]


async def messages_by_id(db: Connection, ids: Sequence[str]) -> list[Message]:
    return [_message(row) for row in await db.fetch(SQL["messages_by_id"], list(ids))]


async def payloads(db: Connection, ids: Sequence[str]) -> dict[str, bytes]:
    return {row["id"]: row["payload"] for row in await db.fetch(SQL["payloads"], list(ids))}


async def attempts(db: Connection, chosen: AttemptFilter, span: Span) -> list[Attempt]:
    values: tuple[Any, ...] = (
        chosen.app_id,
        chosen.endpoint_id,
        chosen.succeeded,
        chosen.status_class,
        _list(chosen.event_types),
        chosen.channel,
    )
    if chosen.message_id is None:
        found = await by_time(db, "attempts_of_endpoint_page", span, *values)
    else:
        found = await by_time(db, "attempts_of_message_page", span, *values, chosen.message_id)
    return [Attempt(**row) for row in found]


async def attempted(
    db: Connection, chosen: AttemptFilter, state: DeliveryState | None, span: Span
) -> list[tuple[Attempt, Delivery]]:
    values = (chosen.app_id, chosen.endpoint_id, state, _list(chosen.event_types), chosen.channel)
    found = await by_time(db, "attempted_page", span, *values)
    return [(Attempt(**{name: row[name] for name in _ATTEMPT}), _delivery(row)) for row in found]


async def destinations(db: Connection, message_id: str, span: Span) -> list[Delivery]:
    return [_delivery(row) for row in await by_id(db, "destinations_page", span, message_id)]


async def attempt(db: Connection, message_id: str, attempt_id: str) -> Attempt | None:
    row = await db.fetchrow(SQL["attempt"], message_id, attempt_id)
    return None if row is None else Attempt(**row)


async def deliveries(db: Connection, chosen: Chosen, span: Span) -> list[Delivery]:
    """By the index that suits the states: what waits, what was lost, or everything by message."""
    values = (chosen.app_id, chosen.endpoint_id, _list(chosen.event_types), chosen.since_ms, chosen.until_ms)
    states = frozenset(chosen.states or DeliveryState)
    page = "open" if states <= _OPEN else "lost" if states <= _LOST else "all"
    found = await _by_place(db, f"{page}_deliveries_page", span, *values, _list(chosen.states))
    return [_delivery(row) for row in found]


def _list(values: Sequence[str] | None) -> list[str] | None:
    return None if values is None else list(values)


def _message(row: Any) -> Message:
    return Message(**{**row, "channels": tuple(row["channels"])})


def _delivery(row: Any) -> Delivery:
    return Delivery(**{name: row[name] for name in _DELIVERY} | {"state": DeliveryState(row["state"])})
