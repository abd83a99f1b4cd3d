"""Connections to Postgres: a few for each kind of work, and a deadline on everything.

Accepting, delivering and looking have connections of their own: a flood of one cannot starve the others. Nothing waits
longer than the deadline, whether for a connection, a lock or the server: statements and locks have their time limits on
the server, and where the server itself is silent the connection is given up.

Behind a pooler of transactions (`pooled`) nothing may outlive a transaction: there is no statement cache, every call is
one explicit transaction, and the limits are set within it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any, Protocol, TypeVar

import asyncpg  # type: ignore[import-untyped]

from hookfuse.errors import StoreUnavailable
from hookfuse.stores.along import waiting
from hookfuse.stores.postgres.audit import add_audit
from hookfuse.stores.postgres.translate import never_done, passing, translated

T = TypeVar("T")

_PAUSES = (0.01, 0.05, 0.2)
_SHED_AFTER = 0.2
"""The part of the deadline that accepting waits for a connection: better an early refusal than a queue."""


_LOOKING = {"plan_cache_mode": "force_custom_plan"}
"""What people look for varies."""

_WORKING = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "enable_material": "off",
}
"""What workers do is always the same: from a few rows by an index to a few others. A plan that was made while a table
was nearly empty would go through all of it, and be kept while it grows."""


class Purpose(StrEnum):
    """What a connection is for."""

    ACCEPT = "accept"
    DELIVER = "deliver"
    DESK = "desk"


class Connection(Protocol):
    """What the verbs use of a connection."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, query: str, *args: Any) -> Any: ...

    async def fetchval(self, query: str, *args: Any) -> Any: ...

    async def execute(self, query: str, *args: Any) -> str: ...


Job = Callable[[Connection], Awaitable[T]]


class Connections:
    """The pools of one store."""

    def __init__(self, url: str, *, size: int, pooled: bool, deadline: float) -> None:
        self._url = url
        self._size = size
        self._pooled = pooled
        self._deadline = deadline
        self._pools: dict[Purpose, Any] = {}

    async def open(self) -> None:
        for purpose in Purpose:
            self._pools[purpose] = await asyncpg.create_pool(
                self._url,
                min_size=0,
                max_size=self._size,
                timeout=self._deadline,
                reset=_leave,
                **self._options(purpose),
            )

    async def close(self) -> None:
        pools, self._pools = self._pools, {}
        for pool in pools.values():
            try:
                async with asyncio.timeout(self._deadline):
                    await pool.close()
            except TimeoutError:
                pool.terminate()

    async def alone(self, purpose: Purpose, job: Job[T]) -> T:
        """Run a job of one statement, which is a transaction of its own."""
        return await self._run(purpose, self._transaction(purpose, job) if self._pooled else job)

    async def together(self, purpose: Purpose, job: Job[T]) -> T:
        """Run a job of several statements in one transaction."""
        return await self._run(purpose, self._transaction(purpose, job))

    async def change(self, purpose: Purpose, job: Job[T], *, alone: bool = False) -> T:
        """Run a job that people asked for, together with the entry of the audit log that waits for it.

        What it answers is true if it changed something. `alone`: it is one statement.
        """
        along = waiting()
        if along is None:
            return await (self.alone if alone else self.together)(purpose, job)

        async def both(db: Connection) -> T:
            result = await job(db)
            if result:
                await add_audit(db, along.entry())
            return result

        result = await self.together(purpose, both)
        if result:
            along.written = True
        return result

    async def _run(self, purpose: Purpose, job: Job[T]) -> T:
        """Once more after a deadlock: nothing was done. Any other error is told."""
        if purpose not in self._pools:
            raise StoreUnavailable("The store is not open; call open() first.")
        try:
            async with asyncio.timeout(self._deadline):
                for pause in _PAUSES:
                    try:
                        return await self._once(purpose, job)
                    except Exception as error:
                        if not never_done(error):
                            raise
                    # At once it could take the same rows away from the one who was to go on.
                    await asyncio.sleep(random.uniform(pause, 2 * pause))
                return await self._once(purpose, job)
        except Exception as error:
            raise translated(error) from error

    async def _once(self, purpose: Purpose, job: Job[T]) -> T:
        pool = self._pools[purpose]
        connection = await self._acquire(pool, purpose)
        try:
            return await job(connection)
        except BaseException as error:
            if not passing(error):
                # Cancelled, timed out or cut: nobody knows what the server does with it.
                connection.terminate()
            raise
        finally:
            await pool.release(connection)

    async def _acquire(self, pool: Any, purpose: Purpose) -> Any:
        if purpose is not Purpose.ACCEPT:
            return await pool.acquire()
        try:
            return await pool.acquire(timeout=_SHED_AFTER * self._deadline)
        except TimeoutError as error:
            raise StoreUnavailable("Every connection for accepting is busy; nothing was stored.") from error

    def _transaction(self, purpose: Purpose, job: Job[T]) -> Job[T]:
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
        if self._pooled:
            begin += "".join(f"; SET LOCAL {name} = '{value}'" for name, value in self._limits(purpose).items())

        async def run(connection: Connection) -> T:
            await connection.execute(begin)
            try:
                result = await job(connection)
            except Exception as error:
                if passing(error):
                    with suppress(Exception):
                        await connection.execute("ROLLBACK")
                raise
            if await connection.execute("COMMIT") != "COMMIT":
                raise StoreUnavailable("The server rolled the transaction back; nothing was stored.")
            return result

        return run

    def _options(self, purpose: Purpose) -> dict[str, Any]:
        if self._pooled:
            return {"statement_cache_size": 0}
        isolation = {"default_transaction_isolation": "read committed"}
        return {"server_settings": {"application_name": f"hookfuse {purpose}", **isolation, **self._limits(purpose)}}

    def _limits(self, purpose: Purpose) -> dict[str, str]:
        milliseconds = round(self._deadline * 1000)
        return {
            "statement_timeout": str(milliseconds * 8 // 10),
            "lock_timeout": str(milliseconds * 6 // 10),
            "idle_in_transaction_session_timeout": str(milliseconds * 2),
            "jit": "off",
            **(_LOOKING if purpose is Purpose.DESK else _WORKING),
        }


async def _leave(connection: Any) -> None:
    """No call changes its session, so there is nothing to reset: this saves a round trip for each."""
