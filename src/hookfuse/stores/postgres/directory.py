"""Applications and endpoints on Postgres."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.errors import Conflict, InvalidField, shown
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL

_JSON = frozenset({"metadata", "policy", "retry", "response"})
_ROUTED = frozenset({"event_types", "channels"})


async def add_application(db: Connection, application: Application) -> Application:
    await _write(db, "add_application", application.id, application.uid, _text(_values(application)))
    found = await application_of(db, application.id)
    assert found is not None
    return found


async def application_of(db: Connection, id_or_uid: str) -> Application | None:
    row = await db.fetchrow(SQL["application"], id_or_uid)
    return None if row is None else read_application(row)


async def change_application(db: Connection, id_: str, changes: Mapping[str, Any]) -> Application | None:
    await _write(db, "change_application", id_, changes.get("uid"), id_, _text(changes))
    if changes.keys() & {"policy", "retry"}:
        # They stand behind those of its endpoints, which workers know by their version.
        await db.execute(SQL["renew_endpoints"], id_)
    return await application_of(db, id_)


async def pause_application(db: Connection, id_: str, paused: bool) -> Application | None:
    await db.fetchrow(SQL["hold_application"], id_)
    await db.execute(SQL["pause_application"], id_, paused)
    endpoints = await _endpoints_of_application(db, id_)
    await (_stop(db, endpoints, Stop.APP_PAUSED) if paused else _start(db, endpoints, Stop.APP_PAUSED))
    return await application_of(db, id_)


async def delete_application(db: Connection, id_: str) -> bool:
    """Its endpoints go with it; what was sent stays until it is pruned."""
    if await db.fetchrow(SQL["hold_application"], id_) is None:
        return False
    await _delete(db, await _endpoints_of_application(db, id_))
    await db.execute(SQL["delete_application"], id_)
    return True


async def add_endpoint(db: Connection, endpoint: Endpoint) -> Endpoint:
    application = await db.fetchrow(SQL["hold_application"], endpoint.app_id)
    if application is None:
        raise InvalidField("app_id", "be that of an application that there is", endpoint.app_id)
    await _write(db, "add_endpoint", endpoint.id, endpoint.uid, _text(_values(endpoint)))
    await db.execute(SQL["change_routes"], [endpoint.id])
    await db.execute(SQL["add_lane"], endpoint.id)
    if application["paused_ms"] is not None:
        await _stop(db, [endpoint.id], Stop.APP_PAUSED)
    found = await endpoint_of(db, endpoint.app_id, endpoint.id)
    assert found is not None
    return found


async def endpoint_of(db: Connection, app_id: str, id_or_uid: str) -> Endpoint | None:
    row = await db.fetchrow(SQL["endpoint"], app_id, id_or_uid)
    return None if row is None else read_endpoint(row)


async def endpoints_of(db: Connection, ids: Sequence[str]) -> list[Endpoint]:
    return [read_endpoint(row) for row in await db.fetch(SQL["endpoints"], list(ids))]


async def change_endpoint(db: Connection, id_: str, changes: Mapping[str, Any], version: int | None) -> Endpoint | None:
    if not changes.keys().isdisjoint(_ROUTED):
        await db.execute(SQL["change_routes"], [id_])
    if version is not None and await db.fetchval(SQL["hold_endpoint"], id_) != version:
        return None
    await _write(db, "change_endpoint", id_, changes.get("uid"), id_, _text(changes))
    await db.execute(SQL["lanes_follow"], [id_])
    if "fifo" in changes:
        await db.execute(SQL["reorder_lane"], id_)
        await db.execute(SQL["wake_lane"], id_)
    return await _endpoint_by_id(db, id_)


async def stop_endpoint(db: Connection, id_: str, stop: Stop, reason: str) -> Endpoint | None:
    await _stop(db, [id_], stop, reason)
    return await _endpoint_by_id(db, id_)


async def start_endpoint(db: Connection, id_: str, stop: Stop) -> Endpoint | None:
    await _start(db, [id_], stop)
    await db.execute(SQL["wake_lane"], id_)
    return await _endpoint_by_id(db, id_)


async def delete_endpoint(db: Connection, id_: str) -> bool:
    await _delete(db, [id_])
    return await _endpoint_by_id(db, id_) is not None


async def _delete(db: Connection, ids: Sequence[str]) -> None:
    await db.execute(SQL["change_routes"], list(ids))
    await _stop(db, ids, Stop.DELETED)
    await db.execute(SQL["cancel_waiting"], list(ids))


async def _stop(db: Connection, ids: Sequence[str], stop: Stop, reason: str = "") -> None:
    await db.execute(SQL["stop_endpoints"], list(ids), int(stop), reason)
    await db.execute(SQL["lanes_follow"], list(ids))


async def _start(db: Connection, ids: Sequence[str], stop: Stop) -> None:
    await db.execute(SQL["start_endpoints"], list(ids), int(stop))
    await db.execute(SQL["lanes_follow"], list(ids))


async def _endpoints_of_application(db: Connection, app_id: str) -> list[str]:
    return [row["id"] for row in await db.fetch(SQL["endpoints_of_application"], app_id)]


async def _endpoint_by_id(db: Connection, id_: str) -> Endpoint | None:
    return next(iter(await endpoints_of(db, [id_])), None)


async def _write(db: Connection, statement: str, id_: str, uid: object, *values: object) -> None:
    try:
        await db.execute(SQL[statement], *values)
    except asyncpg.UniqueViolationError as error:
        by_id = (error.constraint_name or "").endswith("_pkey")
        name, taken = ("id", id_) if by_id else ("uid", uid)
        raise Conflict(f"There is one with the {name} {shown(taken)} already.") from error


def _values(value: Application | Endpoint) -> dict[str, Any]:
    return {each.name: getattr(value, each.name) for each in fields(value)}


def _text(values: Mapping[str, Any]) -> str:
    """A row or a part of one as JSON, which Postgres turns into the types of its columns."""
    return json.dumps({name: _plain(value) for name, value in values.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if isinstance(value, Mapping):
        return dict(value)
    return value


def read_application(row: Any) -> Application:
    return Application(**_read(row))


def read_endpoint(row: Any) -> Endpoint:
    values = _read(row)
    for name in ("event_types", "channels"):
        values[name] = None if values[name] is None else tuple(values[name])
    return Endpoint(**{**values, "stop": Stop(values["stop"])})


def _read(row: Any) -> dict[str, Any]:
    values = dict(row)
    for name in _JSON & values.keys():
        if values[name] is not None:
            values[name] = json.loads(values[name])
    return values
