"""Endpoints over all applications, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hookfuse.core.condition import Census, EndpointFilter, Listed
from hookfuse.core.endpoint import Stop
from hookfuse.core.paging import Span
from hookfuse.core.tally import SLOT_MS, Tally
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.lists import by_id
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.sql import searched


async def sick_endpoints(db: Connection, chosen: EndpointFilter, names: Sequence[str]) -> list[Listed]:
    found = await db.fetch(SQL["sick_endpoints"], list(names), chosen.app_id, searched(chosen.text))
    return [_listed(row) for row in found]


async def other_endpoints(db: Connection, chosen: EndpointFilter, but: Sequence[str], span: Span) -> list[Listed]:
    values = (list(but), chosen.app_id, searched(chosen.text))
    return [_listed(row) for row in await by_id(db, "other_endpoints", span, *values)]


async def recent(db: Connection, endpoint_ids: Sequence[str], slots: int) -> list[Tally]:
    return [Tally(*row) for row in await db.fetch(SQL["recent"], list(endpoint_ids), SLOT_MS, slots)]


async def census(db: Connection) -> Census:
    return Census(*await db.fetchrow(SQL["census"]))


def _listed(row: Any) -> Listed:
    return Listed(**{**dict(row), "stop": Stop(row["stop"])})
