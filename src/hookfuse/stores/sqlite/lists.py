"""Lists in pages, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import apsw

from hookfuse.core.delivery import Attempt, Chosen, Delivery, DeliveryState, Queue
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.listing import AttemptFilter, MessageFilter
from hookfuse.core.message import Message
from hookfuse.core.paging import Span
from hookfuse.stores.sqlite import rows
from hookfuse.stores.sqlite.directory import read_application, read_endpoint
from hookfuse.stores.sqlite.queries import SQL

T = TypeVar("T")

_OPEN = {DeliveryState.PENDING: (Queue.FRESH, Queue.LATE), DeliveryState.SENDING: (Queue.SENDING,)}
_LOST = frozenset({DeliveryState.FAILED, DeliveryState.CANCELLED})


def page(db: apsw.Connection, name: str, span: Span, read: Callable[[Any], T], **values: Any) -> list[T]:
    """What a statement finds within a span."""
    statement = SQL[f"{name}_back" if span.backwards else name]
    bounds = {
        "after_ms": span.after.at_ms,
        "after_id": span.after.id,
        "after_part": span.after.part,
        "before_ms": span.before.at_ms,
        "before_id": span.before.id,
        "before_part": span.before.part,
    }
    return [read(row) for row in db.execute(statement, {**bounds, **values, "limit": span.limit})]


def applications(db: apsw.Connection, span: Span) -> list[Application]:
    return page(db, "applications_page", span, read_application)


def endpoints(db: apsw.Connection, app_id: str, span: Span) -> list[Endpoint]:
    return page(db, "endpoints_page", span, read_endpoint, app=app_id)


def messages(db: apsw.Connection, chosen: MessageFilter, span: Span) -> list[Message]:
    values = {"app": chosen.app_id, "types": json_list(chosen.event_types), "channel": chosen.channel}
    return page(db, "messages_page", span, rows.message, **values)


def missing(db: apsw.Connection, app_id: str, endpoint_id: str, span: Span) -> list[Message]:
    return page(db, "missing_page", span, rows.message, app=app_id, endpoint=endpoint_id)


def messages_by_id(db: apsw.Connection, ids: Sequence[str]) -> list[Message]:
    return [rows.message(row) for row in db.execute(SQL["messages_by_id"], {"ids": json_list(ids)})]


def payloads(db: apsw.Connection, ids: Sequence[str]) -> dict[str, bytes]:
    found: Iterable[Any] = db.execute(SQL["payloads"], {"ids": json_list(ids)})
    return dict(found)


def attempts(db: apsw.Connection, chosen: AttemptFilter, span: Span) -> list[Attempt]:
    name = "attempts_of_endpoint_page" if chosen.message_id is None else "attempts_of_message_page"
    values = {
        "app": chosen.app_id,
        "endpoint": chosen.endpoint_id,
        "message": chosen.message_id,
        "succeeded": chosen.succeeded,
        "class": chosen.status_class,
        "types": json_list(chosen.event_types),
        "channel": chosen.channel,
    }
    return page(db, name, span, rows.attempt, **values)


def attempted(
    db: apsw.Connection, chosen: AttemptFilter, state: DeliveryState | None, span: Span
) -> list[tuple[Attempt, Delivery]]:
    values = {
        "app": chosen.app_id,
        "endpoint": chosen.endpoint_id,
        "state": state,
        "types": json_list(chosen.event_types),
        "channel": chosen.channel,
    }
    return page(db, "attempted_page", span, rows.attempted, **values)


def destinations(db: apsw.Connection, message_id: str, span: Span) -> list[Delivery]:
    return page(db, "destinations_page", span, rows.delivery, message=message_id)


def attempt(db: apsw.Connection, message_id: str, attempt_id: str) -> Attempt | None:
    row = db.execute(SQL["attempt"], {"message": message_id, "id": attempt_id}).fetchone()
    return None if row is None else rows.attempt(row)


def deliveries(db: apsw.Connection, chosen: Chosen, span: Span) -> list[Delivery]:
    """By the index that suits the states: what waits, what was lost, or everything by message."""
    values: dict[str, Any] = {
        "app": chosen.app_id,
        "endpoint": chosen.endpoint_id,
        "states": json_list(chosen.states),
        "since": chosen.since_ms,
        "until": chosen.until_ms,
        "types": json_list(chosen.event_types),
    }
    states = frozenset(chosen.states or DeliveryState)
    if states <= _OPEN.keys():
        queues = [int(queue) for state in states for queue in _OPEN[state]]
        return page(db, "open_deliveries_page", span, rows.delivery, **values, queues=json.dumps(queues))
    name = "lost_deliveries_page" if states <= _LOST else "all_deliveries_page"
    return page(db, name, span, rows.delivery, **values)


def json_list(values: Sequence[str] | None) -> str | None:
    return None if values is None else json.dumps(list(values))
