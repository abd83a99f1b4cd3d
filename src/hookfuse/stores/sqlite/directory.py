"""Applications and endpoints on SQLite."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

import apsw

from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.errors import Conflict, InvalidField, shown
from hookfuse.stores.sqlite.connections import translated
from hookfuse.stores.sqlite.queries import SQL

R = TypeVar("R", Application, Endpoint)

_APPLICATION = tuple(each.name for each in fields(Application))
_ENDPOINT = tuple(each.name for each in fields(Endpoint))
_JSON = frozenset({"metadata", "policy", "retry", "response", "event_types", "channels"})


def add_application(db: apsw.Connection, application: Application, now: int) -> Application:
    _insert(db, "applications", _APPLICATION, application, now)
    found = application_of(db, application.id)
    assert found is not None
    return found


def application_of(db: apsw.Connection, id_or_uid: str) -> Application | None:
    row = db.execute(
        f"SELECT {', '.join(_APPLICATION)} FROM applications WHERE (id = ?1 OR uid = ?1) AND deleted_ms IS NULL",
        (id_or_uid,),
    )
    return _read(Application, _APPLICATION, row.fetchone())


def change_application(db: apsw.Connection, id_: str, changes: Mapping[str, Any], now: int) -> Application | None:
    _update(db, "applications", id_, changes, now)
    if changes.keys() & {"policy", "retry"}:
        # They stand behind those of its endpoints, which workers know by their version.
        db.execute("UPDATE endpoints SET version = version + 1 WHERE app_id = ?", (id_,))
    return application_of(db, id_)


def pause_application(db: apsw.Connection, id_: str, paused: bool, now: int) -> Application | None:
    db.execute("UPDATE applications SET paused_ms = ? WHERE id = ?", (now if paused else None, id_))
    change = "stop_endpoints" if paused else "start_endpoints"
    values = {"id": None, "app": id_, "stop": Stop.APP_PAUSED, "now": now, "reason": ""}
    _halt(db, change, values)
    return application_of(db, id_)


def delete_application(db: apsw.Connection, id_: str, now: int) -> bool:
    """Its endpoints go with it; what was sent stays until it is pruned."""
    endpoints: list[Any] = db.execute("SELECT id FROM endpoints WHERE app_id = ? AND stop & 8 = 0", (id_,)).fetchall()
    for (endpoint,) in endpoints:
        delete_endpoint(db, endpoint, now)
    db.execute("UPDATE applications SET uid = NULL, deleted_ms = ? WHERE id = ? AND deleted_ms IS NULL", (now, id_))
    return db.changes() > 0


def add_endpoint(db: apsw.Connection, endpoint: Endpoint, now: int) -> Endpoint:
    paused = db.execute(
        "SELECT paused_ms IS NOT NULL FROM applications WHERE id = ? AND deleted_ms IS NULL", (endpoint.app_id,)
    ).fetchone()
    if paused is None:
        raise InvalidField("app_id", "be that of an application that there is", endpoint.app_id)
    _insert(db, "endpoints", _ENDPOINT, endpoint, now)
    db.execute(SQL["add_lane"], (endpoint.id,))
    if paused[0]:
        _halt(db, "stop_endpoints", _stop(endpoint.id, Stop.APP_PAUSED, now))
    found = endpoint_of(db, endpoint.app_id, endpoint.id)
    assert found is not None
    return found


def endpoint_of(db: apsw.Connection, app_id: str, id_or_uid: str) -> Endpoint | None:
    row = db.execute(
        f"SELECT {', '.join(_ENDPOINT)} FROM endpoints WHERE app_id = ?1 AND (id = ?2 OR uid = ?2) AND stop & 8 = 0",
        (app_id, id_or_uid),
    )
    return _read(Endpoint, _ENDPOINT, row.fetchone())


def endpoints_of(db: apsw.Connection, ids: list[str]) -> list[Endpoint]:
    marks = ", ".join("?" * len(ids))
    rows = db.execute(f"SELECT {', '.join(_ENDPOINT)} FROM endpoints WHERE id IN ({marks})", ids)
    return [found for row in rows if (found := _read(Endpoint, _ENDPOINT, row)) is not None]


def change_endpoint(
    db: apsw.Connection, id_: str, changes: Mapping[str, Any], version: int | None, now: int
) -> Endpoint | None:
    if version is not None and db.execute(SQL["endpoint_version"], (id_,)).get != version:
        return None
    if not _update(db, "endpoints", id_, changes, now):
        return None
    db.execute("UPDATE endpoints SET version = version + 1 WHERE id = ?", (id_,))
    db.execute(SQL["lanes_follow"], {"id": id_, "app": None})
    if "fifo" in changes:
        db.execute(SQL["reorder_lane"], (id_,))
        db.execute(SQL["wake_lane"], (id_, now))
    return endpoints_of(db, [id_])[0]


def stop_endpoint(db: apsw.Connection, id_: str, stop: Stop, reason: str, now: int) -> Endpoint | None:
    _halt(db, "stop_endpoints", {**_stop(id_, stop, now), "reason": reason})
    return next(iter(endpoints_of(db, [id_])), None)


def start_endpoint(db: apsw.Connection, id_: str, stop: Stop, now: int) -> Endpoint | None:
    _halt(db, "start_endpoints", _stop(id_, stop, now))
    db.execute(SQL["wake_lane"], (id_, now))
    return next(iter(endpoints_of(db, [id_])), None)


def delete_endpoint(db: apsw.Connection, id_: str, now: int) -> bool:
    _halt(db, "stop_endpoints", _stop(id_, Stop.DELETED, now))
    if db.execute("SELECT stop & 8 FROM endpoints WHERE id = ?", (id_,)).get is None:
        return False
    db.execute(SQL["cancel_waiting"], {"endpoint": id_, "now": now, "reason": "endpoint_deleted"})
    return True


def _stop(id_: str, stop: Stop, now: int) -> dict[str, Any]:
    return {"id": id_, "app": None, "stop": int(stop), "now": now, "reason": ""}


def _halt(db: apsw.Connection, change: str, values: Mapping[str, Any]) -> None:
    needed = ("id", "app", "stop", "now", "reason") if change == "stop_endpoints" else ("id", "app", "stop", "now")
    db.execute(SQL[change], {name: values[name] for name in needed})
    db.execute(SQL["lanes_follow"], {"id": values["id"], "app": values["app"]})


def _insert(db: apsw.Connection, table: str, columns: tuple[str, ...], value: Any, now: int) -> None:
    row = {name: _plain(name, getattr(value, name)) for name in columns} | {"created_ms": now, "updated_ms": now}
    marks = ", ".join(f":{name}" for name in columns)
    try:
        db.execute(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks})", row)
    except apsw.ConstraintError as error:
        raise _refusal(error, value.id, value.uid) from error


def _update(db: apsw.Connection, table: str, id_: str, changes: Mapping[str, Any], now: int) -> bool:
    row = {name: _plain(name, value) for name, value in changes.items()}
    sets = ", ".join(f"{name} = :{name}" for name in (*row, "updated_ms"))
    try:
        db.execute(f"UPDATE {table} SET {sets} WHERE id = :id", {**row, "id": id_, "updated_ms": now})
    except apsw.ConstraintError as error:
        raise _refusal(error, id_, changes.get("uid")) from error
    return db.changes() > 0


def _refusal(error: apsw.ConstraintError, id_: str, uid: object) -> Exception:
    """Only what is there already is a conflict."""
    why: int = error.extendedresult  # type: ignore[attr-defined]
    if why == apsw.SQLITE_CONSTRAINT_UNIQUE:
        return Conflict(f"There is one with the uid {shown(uid)} already.")
    if why == apsw.SQLITE_CONSTRAINT_PRIMARYKEY:
        return Conflict(f"There is one with the id {shown(id_)} already.")
    return translated(error)


def _plain(name: str, value: Any) -> Any:
    """A field as SQLite keeps it."""
    if name in _JSON:
        return None if value is None else json.dumps(value if not isinstance(value, Mapping) else dict(value))
    return int(value) if isinstance(value, bool | Stop) else value


def read_application(row: Any) -> Application:
    found = _read(Application, _APPLICATION, row)
    assert found is not None
    return found


def read_endpoint(row: Any) -> Endpoint:
    found = _read(Endpoint, _ENDPOINT, row)
    assert found is not None
    return found


def _read(kind: type[R], columns: tuple[str, ...], row: Any) -> R | None:
    if row is None:
        return None
    values = dict(zip(columns, row, strict=True))
    for name in _JSON & values.keys():
        if values[name] is not None:
            values[name] = json.loads(values[name])
    if kind is Endpoint:
        for name in ("event_types", "channels"):
            values[name] = None if values[name] is None else tuple(values[name])
        values["fifo"] = bool(values["fifo"])
        values["stop"] = Stop(values["stop"])
    return kind(**values)
