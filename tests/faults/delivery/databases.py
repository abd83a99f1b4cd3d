"""The database of an ordeal, looked at from outside: past the store, with statements of our own."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import apsw
import asyncpg  # type: ignore[import-untyped]

from tests.faults.delivery.points import COMMITTING
from tests.ledgers import Fault, Pair, Stored

_DELIVERIES = """
SELECT d.message_id, d.endpoint_id, d.state, d.attempts, m.payload
FROM {schema}deliveries AS d JOIN {schema}messages AS m ON m.id = d.message_id
"""
_LEASES = "SELECT message_id, endpoint_id, {lease_ms} FROM {schema}deliveries WHERE token IS NOT NULL"
_OPEN = "SELECT count(*) FROM {schema}deliveries WHERE queue IS NOT NULL"
_MESSAGES = "SELECT count(*) FROM {schema}messages"

_REOPENED = "SELECT message_id, endpoint_id, was, became FROM reopened"
_KEEP_REOPENED = "CREATE TABLE IF NOT EXISTS reopened (message_id text, endpoint_id text, was text, became text)"
_REOPENING = """
AFTER UPDATE OF state ON {schema}deliveries FOR EACH ROW
WHEN (OLD.state IN ('sent', 'failed', 'cancelled') AND NEW.state <> OLD.state)
"""
_KEEP_IT = "INSERT INTO reopened VALUES (OLD.message_id, OLD.endpoint_id, OLD.state, NEW.state);"


class Database(Protocol):
    """Where an ordeal's messages are."""

    url: str
    shared: bool
    """Whether several processes may use it at once."""
    lease_ms: str
    """Where it says when a lease ends."""

    async def rows(self, statement: str) -> Sequence[Sequence[Any]]: ...

    async def watch_ends(self) -> None:
        """From now on keep every delivery that leaves its end, whoever makes it do so."""


class SqliteDatabase:
    shared = False
    lease_ms = "place"

    def __init__(self, folder: Path) -> None:
        self.path = folder / "hookfuse.db"
        self.url = f"sqlite://{self.path}"

    async def rows(self, statement: str) -> Sequence[Sequence[Any]]:
        # In a thread: a connection that waits for the file must not stop the test.
        return await asyncio.to_thread(self._rows, statement.format(schema="", lease_ms=self.lease_ms))

    async def watch_ends(self) -> None:
        await self.rows(f"{_KEEP_REOPENED}; CREATE TRIGGER IF NOT EXISTS reopened {_REOPENING} BEGIN {_KEEP_IT} END")

    def _rows(self, statement: str) -> Sequence[Sequence[Any]]:
        db = apsw.Connection(str(self.path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            db.set_busy_timeout(5_000)
            return db.execute(statement).fetchall()
        finally:
            db.close()


class PostgresDatabase:
    shared = True
    lease_ms = "lease_ms"

    def __init__(self, url: str, *, by_way_of: str | None = None) -> None:
        self._direct = url
        self.url = by_way_of or url

    async def rows(self, statement: str) -> Sequence[Sequence[Any]]:
        db = await asyncpg.connect(self._direct)
        try:
            named = statement.format(schema="hookfuse.", lease_ms=self.lease_ms)
            return [tuple(row) for row in await db.fetch(named)]
        finally:
            await db.close()

    async def watch_ends(self) -> None:
        await self.rows(_KEEP_REOPENED)
        await self.rows(
            "CREATE OR REPLACE FUNCTION keep_reopened() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$ BEGIN {_KEEP_IT} RETURN NULL; END $$"
        )
        await self.rows(f"CREATE OR REPLACE TRIGGER reopened {_REOPENING} EXECUTE FUNCTION keep_reopened()")


async def dump(database: Database) -> list[Stored]:
    """Every delivery."""
    return [
        Stored(f"{message}/{endpoint}", message, endpoint, state, attempts, hashlib.sha256(payload).hexdigest())
        for message, endpoint, state, attempts, payload in await database.rows(_DELIVERIES)
    ]


async def reopened(database: Database) -> list[Fault]:
    """Every delivery that has left its end since this is watched."""
    rows = await database.rows(_REOPENED)
    return [Fault(message, endpoint, f"was {was}, became {became}") for message, endpoint, was, became in rows]


async def leases(database: Database) -> dict[Pair, float]:
    """Until when each delivery is with a worker, in Unix seconds."""
    return {(message, endpoint): end_ms / 1000 for message, endpoint, end_ms in await database.rows(_LEASES)}


async def unfinished(database: Database) -> int:
    """How many deliveries have not come to an end."""
    return int((await database.rows(_OPEN))[0][0])


async def messages(database: Database) -> int:
    return int((await database.rows(_MESSAGES))[0][0])


async def slow_down_commits(database: Database) -> None:
    """Those that store messages, on Postgres: a deferred trigger runs at the commit."""
    await database.rows(
        "CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$ BEGIN PERFORM pg_sleep({2 * COMMITTING}); RETURN NULL; END $$"
    )
    await database.rows(
        "CREATE CONSTRAINT TRIGGER dawdle AFTER INSERT ON {schema}bells"
        " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.dawdle()"
    )
