"""Counts, event types, keys, the audit log and tasks, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import apsw

from hookfuse.core.access import ApiKey
from hookfuse.core.catalog import EventType
from hookfuse.core.listing import AttemptCounts, DeliveryCounts
from hookfuse.core.record import AuditEntry, Task, TaskStatus
from hookfuse.errors import Conflict, shown
from hookfuse.stores.sqlite import rows
from hookfuse.stores.sqlite.accept import RING_FRESH
from hookfuse.stores.sqlite.lists import json_list
from hookfuse.stores.sqlite.queries import SQL


def delivery_counts(db: apsw.Connection, app_id: str, endpoint_id: str, since: int, until: int) -> DeliveryCounts:
    values = {"app": app_id, "endpoint": endpoint_id, "since": since, "until": until}
    found: list[Any] = db.execute(SQL["delivery_counts"], values).fetchall()
    return DeliveryCounts(**dict(found))


def attempt_counts(db: apsw.Connection, endpoint_id: str, since: int, until: int) -> AttemptCounts:
    values = {"endpoint": endpoint_id, "since": since, "until": until}
    succeeded, made = db.execute(SQL["attempt_counts"], values).get
    return AttemptCounts(succeeded, made - succeeded)


def waiting(db: apsw.Connection, endpoint_ids: Sequence[str]) -> dict[str, int]:
    found: list[Any] = db.execute(SQL["waiting"], {"endpoints": json_list(endpoint_ids)}).fetchall()
    return {endpoint_id: count for endpoint_id, count in found if count}


def add_deliveries(db: apsw.Connection, endpoint_id: str, message_ids: Sequence[str], now: int) -> int:
    values = {"endpoint": endpoint_id, "messages": json_list(message_ids), "now": now}
    db.execute(SQL["add_deliveries"], values)
    added = db.changes()
    if added:
        RING_FRESH.run(db, [(endpoint_id, now)])
    return added


def add_event_type(db: apsw.Connection, event_type: EventType, now: int) -> EventType:
    if db.execute(SQL["add_event_type"], _values(event_type, now)).fetchone() is None:
        raise Conflict(f"There is an event type {shown(event_type.name)} already.")
    found = event_type_of(db, event_type.name)
    assert found is not None
    return found


def event_type_of(db: apsw.Connection, name: str) -> EventType | None:
    row = db.execute(SQL["event_type"], {"name": name}).fetchone()
    return None if row is None else rows.event_type(row)


def change_event_type(db: apsw.Connection, name: str, changes: Mapping[str, Any], now: int) -> EventType | None:
    found = event_type_of(db, name)
    if found is None:
        return None
    db.execute(SQL["change_event_type"], _values(replace(found, **changes), now))
    return event_type_of(db, name)


def delete_event_type(db: apsw.Connection, name: str) -> bool:
    db.execute(SQL["delete_event_type"], {"name": name})
    return db.changes() > 0


def add_key(db: apsw.Connection, key: ApiKey, now: int) -> ApiKey:
    values = {"id": key.id, "role": key.role, "name": key.name, "hash": key.hash, "app": key.app_id, "now": now}
    db.execute(SQL["add_key"], values)
    return replace(key, created_ms=now)


def add_first_key(db: apsw.Connection, key: ApiKey, now: int) -> bool:
    if db.execute(SQL["has_keys"]).get:
        return False
    add_key(db, key, now)
    return True


def key_by(db: apsw.Connection, statement: str, value: str | bytes) -> ApiKey | None:
    row = db.execute(SQL[statement], {"id": value, "hash": value}).fetchone()
    return None if row is None else rows.key(row)


def revoke_key(db: apsw.Connection, id_: str, now: int) -> bool:
    db.execute(SQL["revoke_key"], {"id": id_, "now": now})
    return db.changes() > 0


def touch_keys(db: apsw.Connection, ids: Sequence[str], now: int) -> None:
    db.execute(SQL["touch_keys"], {"ids": json_list(ids), "now": now})


def add_audit(db: apsw.Connection, entry: AuditEntry, now: int) -> None:
    values = {"id": entry.id, "actor": entry.actor, "action": entry.action, "subject": entry.subject}
    db.execute(SQL["add_audit"], {**values, "app": entry.app_id, "detail": entry.detail, "now": now})


def add_task(db: apsw.Connection, task: Task, now: int) -> Task:
    values = {"id": task.id, "kind": task.kind, "app": task.app_id, "subject": task.subject}
    db.execute(SQL["add_task"], {**values, "status": task.status, "total": task.total, "now": now})
    return replace(task, created_ms=now, updated_ms=now)


def task_of(db: apsw.Connection, id_: str) -> Task | None:
    row = db.execute(SQL["task"], {"id": id_}).fetchone()
    return None if row is None else rows.task(row)


def advance_task(db: apsw.Connection, id_: str, status: TaskStatus, seen: int, changed: int, now: int) -> bool:
    values = {"id": id_, "status": status, "seen": seen, "changed": changed, "now": now}
    db.execute(SQL["advance_task"], values)
    return db.changes() > 0


def cancel_task(db: apsw.Connection, id_: str, now: int) -> bool:
    db.execute(SQL["cancel_task"], {"id": id_, "now": now})
    return db.changes() > 0


def default_policy(db: apsw.Connection) -> Mapping[str, Any] | None:
    row: Any = db.execute(SQL["default_policy"]).fetchone()
    found: Mapping[str, Any] | None = None if row is None else json.loads(row[0])
    return found


def change_default_policy(db: apsw.Connection, policy: Mapping[str, Any] | None) -> bool:
    db.execute(SQL["change_default_policy"], {"value": json.dumps(policy)})
    db.execute(SQL["renew_all_endpoints"])
    return True


def _values(event_type: EventType, now: int) -> dict[str, Any]:
    return {
        "name": event_type.name,
        "description": event_type.description,
        "archived": int(event_type.archived),
        "deprecated": int(event_type.deprecated),
        "schemas": None if event_type.schemas is None else json.dumps(event_type.schemas),
        "group_name": event_type.group_name,
        "feature_flags": json_list(event_type.feature_flags),
        "now": now,
    }
