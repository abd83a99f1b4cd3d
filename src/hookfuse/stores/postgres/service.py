"""Counts, event types, keys, the audit log and tasks, on Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hookfuse.core.access import ApiKey, Role
from hookfuse.core.catalog import EventType
from hookfuse.core.listing import AttemptCounts, DeliveryCounts
from hookfuse.core.message import Accepted, Answer, NewMessage, Refused
from hookfuse.core.paging import Span
from hookfuse.core.record import AuditEntry, Task, TaskKind, TaskStatus
from hookfuse.errors import Conflict, shown
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.lists import by_id
from hookfuse.stores.postgres.queries import SQL


async def delivery_counts(db: Connection, app_id: str, endpoint_id: str, since: int, until: int) -> DeliveryCounts:
    found = await db.fetch(SQL["delivery_counts"], app_id, endpoint_id, since, until)
    return DeliveryCounts(**{row["state"]: row["count"] for row in found})


async def attempt_counts(db: Connection, endpoint_id: str, since: int, until: int) -> AttemptCounts:
    row = await db.fetchrow(SQL["attempt_counts"], endpoint_id, since, until)
    return AttemptCounts(row["succeeded"], row["made"] - row["succeeded"])


async def waiting(db: Connection, endpoint_ids: Sequence[str]) -> dict[str, int]:
    return {row["id"]: row["count"] for row in await db.fetch(SQL["waiting"], list(endpoint_ids))}


async def accept_for(db: Connection, message: NewMessage, endpoint_id: str) -> Answer:
    values = (message.event_type, list(message.channels), message.deliver_ms, message.payload, endpoint_id)
    now = await db.fetchval(SQL["accept_for"], message.id, message.app_id, *values)
    return Refused("unknown_application") if now is None else Accepted(message.id, now, 1)


async def add_deliveries(db: Connection, endpoint_id: str, message_ids: Sequence[str]) -> int:
    return int(await db.fetchval(SQL["add_deliveries"], endpoint_id, list(message_ids)))


async def add_event_type(db: Connection, event_type: EventType) -> EventType:
    if await db.fetchval(SQL["add_event_type"], *_values(event_type)) is None:
        raise Conflict(f"There is an event type {shown(event_type.name)} already.")
    found = await event_type_of(db, event_type.name)
    assert found is not None
    return found


async def event_type_of(db: Connection, name: str) -> EventType | None:
    row = await db.fetchrow(SQL["event_type"], name)
    return None if row is None else _event_type(row)


async def event_types_page(db: Connection, span: Span, archived: bool) -> list[EventType]:
    return [_event_type(row) for row in await by_id(db, "event_types_page", span, archived)]


async def change_event_type(db: Connection, name: str, changes: Mapping[str, Any]) -> EventType | None:
    row = await db.fetchrow(SQL["hold_event_type"], name)
    if row is None:
        return None
    await db.execute(SQL["change_event_type"], *_values(replace(_event_type(row), **changes)))
    return await event_type_of(db, name)


async def delete_event_type(db: Connection, name: str) -> bool:
    return bool(await db.fetchval(SQL["delete_event_type"], name))


async def add_key(db: Connection, key: ApiKey) -> ApiKey:
    created_ms = await db.fetchval(SQL["add_key"], key.id, key.role, key.name, key.hash, key.app_id)
    return replace(key, created_ms=created_ms)


async def add_first_key(db: Connection, key: ApiKey) -> bool:
    await db.execute(SQL["hold_keys"])
    if await db.fetchval(SQL["has_keys"]):
        return False
    await add_key(db, key)
    return True


async def key_by(db: Connection, statement: str, value: str | bytes) -> ApiKey | None:
    row = await db.fetchrow(SQL[statement], value)
    return None if row is None else _key(row)


async def keys_page(db: Connection, app_id: str | None, span: Span) -> list[ApiKey]:
    return [_key(row) for row in await by_id(db, "keys_page", span, app_id)]


async def revoke_key(db: Connection, id_: str) -> bool:
    return bool(await db.fetchval(SQL["revoke_key"], id_))


async def touch_keys(db: Connection, ids: Sequence[str]) -> None:
    await db.execute(SQL["touch_keys"], list(ids))


async def audit_page(db: Connection, app_id: str | None, span: Span) -> list[AuditEntry]:
    return [AuditEntry(**row) for row in await by_id(db, "audit_page", span, app_id)]


async def add_task(db: Connection, task: Task) -> Task:
    values = (task.id, task.kind, task.app_id, task.subject, task.status, task.total)
    created_ms = await db.fetchval(SQL["add_task"], *values)
    return replace(task, created_ms=created_ms, updated_ms=created_ms)


async def task_of(db: Connection, id_: str) -> Task | None:
    row = await db.fetchrow(SQL["task"], id_)
    return None if row is None else _task(row)


async def tasks_page(db: Connection, app_id: str | None, span: Span) -> list[Task]:
    return [_task(row) for row in await by_id(db, "tasks_page", span, app_id)]


async def advance_task(db: Connection, id_: str, status: TaskStatus, seen: int, changed: int) -> bool:
    return bool(await db.fetchval(SQL["advance_task"], id_, status, seen, changed))


async def cancel_task(db: Connection, id_: str) -> bool:
    return bool(await db.fetchval(SQL["cancel_task"], id_))


async def default_policy(db: Connection) -> Mapping[str, Any] | None:
    text = await db.fetchval(SQL["default_policy"])
    found: Mapping[str, Any] | None = None if text is None else json.loads(text)
    return found


async def change_default_policy(db: Connection, policy: Mapping[str, Any] | None) -> bool:
    await db.execute(SQL["change_default_policy"], json.dumps(policy))
    await db.execute(SQL["renew_all_endpoints"])
    return True


def _values(event_type: EventType) -> tuple[Any, ...]:
    return (
        event_type.name,
        event_type.description,
        event_type.archived,
        event_type.deprecated,
        None if event_type.schemas is None else json.dumps(event_type.schemas),
        event_type.group_name,
        None if event_type.feature_flags is None else list(event_type.feature_flags),
    )


def _event_type(row: Any) -> EventType:
    schemas, flags = row["schemas"], row["feature_flags"]
    read = {
        "schemas": None if schemas is None else json.loads(schemas),
        "feature_flags": None if flags is None else tuple(flags),
    }
    return EventType(**{**row, **read})


def _key(row: Any) -> ApiKey:
    return ApiKey(**{**row, "role": Role(row["role"])})


def _task(row: Any) -> Task:
    return Task(**{**row, "kind": TaskKind(row["kind"]), "status": TaskStatus(row["status"])})
