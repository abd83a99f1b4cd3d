"""A database of the demo's own beside the one that is named, so that nothing of that is ever touched."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]

from hookfuse.errors import StoreError, StoreUnavailable
from hookfuse.stores.sql import statements

_SQL = statements("hookfuse.demo")
_CONNECTS_WITHIN = 10.0


@asynccontextmanager
async def passing_database(url: str) -> AsyncIterator[str]:
    """Yields its URL, and drops it in the end."""
    name = f"hookfuse_demo_{secrets.token_hex(6)}"
    drop = _SQL["drop_database"].format(name=name)
    try:
        await _execute(url, _SQL["create_database"].format(name=name))
    except asyncio.CancelledError:
        # Nobody knows how far it came.
        await _execute(url, drop)
        raise
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        await _execute(url, drop)


async def _execute(url: str, statement: str) -> None:
    try:
        connection = await asyncpg.connect(url, timeout=_CONNECTS_WITHIN)
        try:
            await connection.execute(statement)
        finally:
            await connection.close(timeout=_CONNECTS_WITHIN)
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreError(
            "The demo makes a database of its own and drops it afterwards; this user may not (ALTER ROLE … CREATEDB)."
        ) from error
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        # Without the URL itself: it may hold a password.
        raise StoreUnavailable(f"The Postgres of --database-url cannot be used: {_why(error)}.") from error


def _why(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
