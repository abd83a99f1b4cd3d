"""Rows of lists as values. The statements name the columns in the order of the fields."""

from __future__ import annotations

import json
from typing import Any

from hookfuse.core.access import ApiKey, Role
from hookfuse.core.catalog import EventType
from hookfuse.core.delivery import Attempt, Delivery, DeliveryState
from hookfuse.core.message import Message
from hookfuse.core.record import AuditEntry, Task, TaskKind, TaskStatus

_ATTEMPT = Attempt._fields


def message(row: Any) -> Message:
    id_, app_id, event_type, payload, uid, channels, deliver_ms, created_ms = row
    return Message(id_, app_id, event_type, payload, uid, tuple(json.loads(channels)), deliver_ms, created_ms)


def attempt(row: Any) -> Attempt:
    values = dict(zip(_ATTEMPT, row, strict=True))
    return Attempt(**{**values, "manual": bool(values["manual"])})


def delivery(row: Any) -> Delivery:
    message_id, endpoint_id, app_id, state, *rest = row
    return Delivery(message_id, endpoint_id, app_id, DeliveryState(state), *rest)


def attempted(row: Any) -> tuple[Attempt, Delivery]:
    return attempt(row[: len(_ATTEMPT)]), delivery(row[len(_ATTEMPT) :])


def event_type(row: Any) -> EventType:
    name, description, archived, deprecated, schemas, group_name, flags, created_ms, updated_ms = row
    return EventType(
        name,
        description,
        bool(archived),
        bool(deprecated),
        None if schemas is None else json.loads(schemas),
        group_name,
        None if flags is None else tuple(json.loads(flags)),
        created_ms,
        updated_ms,
    )


def key(row: Any) -> ApiKey:
    id_, role, *rest = row
    return ApiKey(id_, Role(role), *rest)


def audit(row: Any) -> AuditEntry:
    return AuditEntry(*row)


def task(row: Any) -> Task:
    id_, kind, app_id, subject, status, *rest = row
    return Task(id_, TaskKind(kind), app_id, subject, TaskStatus(status), *rest)
