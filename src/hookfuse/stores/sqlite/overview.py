"""Endpoints over all applications, on SQLite."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import apsw

from hookfuse.core.condition import Census, EndpointFilter, Listed
from hookfuse.core.endpoint import Stop
from hookfuse.core.paging import Span
from hookfuse.core.tally import SLOT_MS, Tally
from hookfuse.stores.sql import searched
from hookfuse.stores.sqlite.lists import json_list, page
from hookfuse.stores.sqlite.queries import SQL

_LISTED = tuple(each.name for each in fields(Listed))


def sick_endpoints(db: apsw.Connection, chosen: EndpointFilter, names: Sequence[str]) -> list[Listed]:
    return [_listed(row) for row in db.execute(SQL["sick_endpoints"], _values(chosen, names))]


def other_endpoints(db: apsw.Connection, chosen: EndpointFilter, but: Sequence[str], span: Span) -> list[Listed]:
    return page(db, "other_endpoints", span, _listed, **_values(chosen, but))


def recent(db: apsw.Connection, endpoint_ids: Sequence[str], slots: int, now: int) -> list[Tally]:
    values = {"endpoints": json_list(endpoint_ids), "last": now - now % SLOT_MS, "width": SLOT_MS, "slots": slots}
    rows: Any = db.execute(SQL["recent"], values)
    return [Tally(*row) for row in rows]


def census(db: apsw.Connection) -> Census:
    row: Any = db.execute(SQL["census"]).fetchone()
    return Census(*row)


def _values(chosen: EndpointFilter, names: Sequence[str]) -> dict[str, Any]:
    return {"app": chosen.app_id, "text": searched(chosen.text), "names": json_list(names)}


def _listed(row: Any) -> Listed:
    values = dict(zip(_LISTED, row, strict=True))
    return Listed(**{**values, "stop": Stop(values["stop"]), "failing": bool(values["failing"])})
