"""What people look at and do by hand, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import apsw

from hookfuse.core.delivery import Attempt, Chosen, Delivery, DeliveryState, Place
from hookfuse.core.duty import Tenure
from hookfuse.core.lanes import DAY_MS
from hookfuse.core.message import Message
from hookfuse.stores.sqlite.bulk import Many
from hookfuse.stores.sqlite.duties import holds
from hookfuse.stores.sqlite.queries import SQL
from hookfuse.stores.sqlite.settle import RING_RETURNED

_MESSAGE = tuple(each.name for each in fields(Message))
_DELIVERY = tuple(each.name for each in fields(Delivery))
_ATTEMPT = Attempt._fields
_RETRY = Many(SQL["retry"])
_CANCEL = Many(SQL["cancel"])


def message_of(db: apsw.Connection, app_id: str, id_or_uid: str) -> Message | None:
    row = db.execute(
        f"SELECT {', '.join(_MESSAGE)} FROM messages WHERE app_id = ?1 AND (id = ?2 OR uid = ?2)", (app_id, id_or_uid)
    ).fetchone()
    if row is None:
        return None
    values = dict(zip(_MESSAGE, row, strict=True))
    return Message(**{**values, "channels": tuple(json.loads(values["channels"]))})


def delivery_of(db: apsw.Connection, message_id: str, endpoint_id: str) -> Delivery | None:
    row = db.execute(
        f"SELECT {', '.join(_DELIVERY)} FROM deliveries WHERE message_id = ? AND endpoint_id = ?",
        (message_id, endpoint_id),
    ).fetchone()
    return None if row is None else _delivery(row)


def deliveries(db: apsw.Connection, chosen: Chosen, after: Place | None, limit: int) -> list[Delivery]:
    where, values = _where(chosen)
    if after is not None:
        where += " AND (d.message_id, d.endpoint_id) > (?, ?)"
        values += after
    columns = ", ".join(f"d.{name}" for name in _DELIVERY)
    rows = db.execute(
        f"SELECT {columns} FROM deliveries AS d WHERE {where} ORDER BY d.message_id, d.endpoint_id LIMIT ?",
        (*values, limit),
    )
    return [_delivery(row) for row in rows]


def count(db: apsw.Connection, chosen: Chosen) -> int:
    where, values = _where(chosen)
    return int(db.execute(f"SELECT count(*) FROM deliveries AS d WHERE {where}", values).get)


def _where(chosen: Chosen) -> tuple[str, list[Any]]:
    terms = ["d.app_id = ?"]
    values: list[Any] = [chosen.app_id]
    if chosen.endpoint_id is not None:
        terms.append("d.endpoint_id = ?")
        values.append(chosen.endpoint_id)
    if chosen.states is not None:
        # Written out, so that the partial indexes can be used; the words are ours.
        terms.append(f"d.state IN ({', '.join(repr(str(state)) for state in chosen.states)})")
    if chosen.since_ms is not None:
        terms.append("d.created_ms >= ?")
        values.append(chosen.since_ms)
    if chosen.until_ms is not None:
        terms.append("d.created_ms < ?")
        values.append(chosen.until_ms)
    if chosen.event_types is not None:
        marks = ", ".join("?" * len(chosen.event_types))
        terms.append(f"EXISTS (SELECT 1 FROM messages AS m WHERE m.id = d.message_id AND m.event_type IN ({marks}))")
        values += chosen.event_types
    return " AND ".join(terms), values


def attempts(db: apsw.Connection, message_id: str, endpoint_id: str | None) -> list[Attempt]:
    rows = db.execute(
        f"SELECT {', '.join(_ATTEMPT)} FROM attempts"
        " WHERE message_id = ?1 AND (?2 IS NULL OR endpoint_id = ?2) ORDER BY id",
        (message_id, endpoint_id),
    )
    return [_attempt(row) for row in rows]


def retry(db: apsw.Connection, pairs: Sequence[Place], now: int) -> int:
    done = _RETRY.run(db, pairs, now)
    RING_RETURNED.run(db, pairs)
    return done


def cancel(db: apsw.Connection, pairs: Sequence[Place], now: int) -> int:
    return _CANCEL.run(db, pairs, now)


def expunge(db: apsw.Connection, app_id: str, message_id: str, now: int) -> bool:
    """Forget a message's content; what still waits is cancelled."""
    db.execute(SQL["expunge"], (message_id, app_id))
    if not db.changes():
        return False
    db.execute(SQL["cancel_message"], (now, message_id))
    return True


def older(db: apsw.Connection, than_ms: int) -> int:
    count: Any = db.execute(SQL["older_messages"], (than_ms,)).get
    return int(count)


def prune(db: apsw.Connection, older_than_ms: int, limit: int, tenure: Tenure | None, now: int) -> int:
    if not holds(db, tenure):
        return 0
    ids = db.execute(SQL["prune_messages"], (older_than_ms, limit)).fetchall()
    for name in ("prune_attempts", "prune_deliveries", "prune_message"):
        db.executemany(SQL[name], ids)
    db.execute(SQL["prune_keys"], (now - DAY_MS,))
    return len(ids)


def _delivery(row: Any) -> Delivery:
    values = dict(zip(_DELIVERY, row, strict=True))
    return Delivery(**{**values, "state": DeliveryState(values["state"])})


def _attempt(row: Any) -> Attempt:
    values = dict(zip(_ATTEMPT, row, strict=True))
    return Attempt(**{**values, "manual": bool(values["manual"])})
