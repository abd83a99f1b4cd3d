"""A database of the demo's own beside the one that is named, so that nothing of that is ever touched."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]

from hookfuse.errors import StoreError, StoreUnavailable
from hookfuse.stores.sql import statements

_SQL = statements("hookfuse.demo")
_CONNECTS_WITHIN = 10.0


@asynccontextmanager
async def passing_database(url: str) -> AsyncIterator[str]:
    """Yields its URL, and drops it in the end. What demos left that were killed is dropped before."""
    name = f"hookfuse_demo_{secrets.token_hex(6)}"
    drop = _SQL["drop_database"].format(name=name)
    async with _claimed(url, name):
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


@asynccontextmanager
async def _claimed(url: str, name: str) -> AsyncIterator[None]:
    """Holds a name as long as this process lives, so that other demos leave its database alone."""
    with _told():
        connection = await asyncpg.connect(url, timeout=_CONNECTS_WITHIN)
    try:
        with _told():
            await connection.fetchval(_SQL["claim_name"], name)
            for unused, *_ in await connection.fetch(_SQL["unused_databases"]):
                # Nobody holds the name: who made it was killed.
                if await connection.fetchval(_SQL["claim_name"], unused):
                    await connection.execute(_SQL["drop_database"].format(name=unused))
        yield
    finally:
        connection.terminate()


async def _execute(url: str, statement: str) -> None:
    with _told():
        connection = await asyncpg.connect(url, timeout=_CONNECTS_WITHIN)
        try:
            await connection.execute(statement)
        finally:
            await connection.close(timeout=_CONNECTS_WITHIN)


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with the server, in a sentence."""
    try:
        yield
    except asyncpg.InsufficientPrivilegeError as error:
        raise StoreError(
            "The demo makes a database of its own and drops it afterwards; this user may not (ALTER ROLE … CREATEDB)."
        ) from error
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError, ValueError) as error:
        # Without the URL itself: it may hold a password.
        raise StoreUnavailable(f"The Postgres of --database-url cannot be used: {_why(error)}.") from error


def _why(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
