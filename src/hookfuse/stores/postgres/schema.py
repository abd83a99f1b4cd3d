"""Brings the schema up to date, however many processes start at once."""

from __future__ import annotations

from typing import Any

import asyncpg  # type: ignore[import-untyped]

from hookfuse.errors import StoreError
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.postgres.translate import translated
from hookfuse.stores.sql import Migration, functions, migrations

OLDEST = 15


async def migrate(url: str, *, pooled: bool, connect_within: float) -> None:
    """Apply what is missing; refuse a schema that is newer than this program."""
    known = migrations("hookfuse.stores.postgres")
    options = {"statement_cache_size": 0} if pooled else {}
    try:
        connection = await asyncpg.connect(url, timeout=connect_within, **options)
        try:
            _check_server(connection)
            async with connection.transaction(isolation="read_committed"):
                current = await _applied(connection) == known[-1].number
            if not current:
                async with connection.transaction(isolation="read_committed"):
                    await _apply(connection, known)
        finally:
            await connection.close(timeout=connect_within)
    except Exception as error:
        raise translated(error) from error


def _check_server(connection: Any) -> None:
    found = connection.get_server_version().major
    if found < OLDEST:
        raise StoreError(f"This is Postgres {found}; Hookfuse needs {OLDEST} or newer.")


async def _apply(connection: Any, known: list[Migration]) -> None:
    await connection.execute(SQL["lock_schema"])
    applied = await _applied(connection)
    if applied > known[-1].number:
        raise StoreError("This database was made by a newer Hookfuse; install that version or a newer one.")
    if applied == known[-1].number:
        # Somebody else has done it while we waited, and may be at work with these functions.
        return
    if applied == 0:
        await connection.execute(SQL["create_schema"])
    for each in known:
        if each.number > applied:
            await connection.execute(each.text)
            await connection.execute(SQL["record_migration"], each.number, each.name)
    # After whatever they use; so a changed function needs a new number, too.
    for text in functions("hookfuse.stores.postgres"):
        await connection.execute(text)


async def _applied(connection: Any) -> int:
    """The number of the last migration; 0: there is no schema yet."""
    if not await connection.fetchval(SQL["schema_exists"]):
        return 0
    return int(await connection.fetchval(SQL["schema_number"]))
