"""The two connections to the database file: one that writes, and one that reads the last commit.

The writer runs its statements within the event loop and hands only the commit, which waits for the disk, to a thread.
A thread for the statements too would be slower: each of the thousands of small calls into SQLite lets go of the
interpreter's lock and then queues up for it behind the loop. Few large calls queue less often, but each may wait as
long as the loop is busy, so the two still take turns and gain nothing.

What is asked while a commit is under way runs in the next transaction, all of it together, each job within a savepoint
of its own: one sync to the disk for everyone (group commit), and a job that fails undoes only itself. Nobody is
answered before the commit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import apsw

from hookfuse.errors import HookfuseError, StoreError, StoreUnavailable

T = TypeVar("T")
Job: TypeAlias = Callable[[apsw.Connection], T]

_MOST_AT_ONCE = 256
_BUSY_SECONDS = 5.0
_BUSY_PAUSE = 0.01


def connected(
    path: str | os.PathLike[str], flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
) -> apsw.Connection:
    """A connection that plans a statement once, whatever values it is given."""
    db = apsw.Connection(os.fspath(path), flags=flags)
    # Where it may use a partial index or a range, SQLite looks at the values, and plans anew for each new one: for the
    # head of a lane that takes longer than reading it. Our plans are the same for all values.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return db


class _Asked(NamedTuple, Generic[T]):
    job: Job[T]
    answer: asyncio.Future[T]


class Writer:
    """`undone` is called when a transaction, or a job of one, was undone."""

    def __init__(self, connect: Callable[[], apsw.Connection], undone: Callable[[], None]) -> None:
        self._connect = connect
        self._undone = undone
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hookfuse-sqlite-commit")
        self._db: apsw.Connection | None = None
        self._asked: list[_Asked[Any]] = []
        self._working: asyncio.Task[None] | None = None

    async def open(self) -> None:
        self._db = await _in_thread(self._thread, self._connect)

    async def run(self, job: Job[T]) -> T:
        if self._db is None:
            raise StoreUnavailable("The database is closed.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._asked.append(_Asked(job, answer))
        if self._working is None:
            self._working = loop.create_task(self._work(self._db), name="hookfuse-sqlite-writer")
        return await answer

    async def close(self) -> None:
        """Do what was asked, then end."""
        while self._working is not None:
            await asyncio.wait([self._working])
        db, self._db = self._db, None
        if db is not None:
            await _in_thread(self._thread, db.close)
        self._thread.shutdown()

    async def _work(self, db: apsw.Connection) -> None:
        try:
            while self._asked:
                # Those who ask in the same turn of the loop go together.
                await asyncio.sleep(0)
                batch, self._asked = self._asked[:_MOST_AT_ONCE], self._asked[_MOST_AT_ONCE:]
                await self._transact(db, batch)
        finally:
            self._working = None

    async def _transact(self, db: apsw.Connection, batch: list[_Asked[Any]]) -> None:
        done: list[tuple[asyncio.Future[Any], Any, BaseException | None]] = []
        try:
            await self._begin(db)
            for asked in batch:
                done.append((asked.answer, *self._do(db, asked.job)))
                # The loop has other things to do between two jobs.
                await asyncio.sleep(0)
            await _in_thread(self._thread, db.execute, "COMMIT")
        except BaseException as error:
            if db.in_transaction:
                db.execute("ROLLBACK")
            self._undone()
            # A cancelled writer must not look like cancelled callers.
            ours = translated(error) if isinstance(error, Exception) else StoreUnavailable("The program is ending.")
            done = [(asked.answer, None, ours) for asked in batch]
            if not isinstance(error, Exception):
                raise
        finally:
            for answer, result, failed in done:
                _answer(answer, result, failed)

    async def _begin(self, db: apsw.Connection) -> None:
        deadline = asyncio.get_running_loop().time() + _BUSY_SECONDS
        while True:
            try:
                db.execute("BEGIN IMMEDIATE")
                return
            except apsw.BusyError:
                # Another program writes to the file; the loop must not wait for it.
                if asyncio.get_running_loop().time() >= deadline:
                    raise
                await asyncio.sleep(_BUSY_PAUSE)

    def _do(self, db: apsw.Connection, job: Job[Any]) -> tuple[Any, BaseException | None]:
        db.execute("SAVEPOINT job")
        try:
            result = job(db)
        except Exception as error:
            if not db.in_transaction:
                # The database itself gave up the transaction (a full disk): the whole batch is undone.
                raise
            db.execute("ROLLBACK TO job")
            db.execute("RELEASE job")
            self._undone()
            return None, translated(error)
        db.execute("RELEASE job")
        return result, None


class Reader:
    """Runs reads one after the other in a thread: one that looks at much holds up no event loop."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._connect = connect
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="hookfuse-sqlite-reader")
        self._db: apsw.Connection | None = None

    async def open(self) -> None:
        self._db = await _in_thread(self._thread, self._connect)

    async def run(self, job: Job[T]) -> T:
        if self._db is None:
            raise StoreUnavailable("The database is closed.")
        return await _in_thread(self._thread, job, self._db)

    async def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            await _in_thread(self._thread, db.close)
        self._thread.shutdown()


def translated(error: Exception) -> Exception:
    """An error of the driver as ours, with the sentence that it deserves."""
    if isinstance(error, HookfuseError) or not isinstance(error, apsw.Error):
        return error
    ours: StoreError
    if isinstance(error, apsw.FullError):
        ours = StoreUnavailable("The disk that holds the database is full; nothing was stored.")
    elif isinstance(error, apsw.BusyError | apsw.LockedError):
        ours = StoreUnavailable("Another program holds the database file; nothing was stored.")
    else:
        ours = StoreUnavailable(f"The database file could not be used: {error}.")
    ours.__cause__ = error
    return ours


async def _in_thread(thread: ThreadPoolExecutor, function: Callable[..., T], *args: object) -> T:
    try:
        return await asyncio.get_running_loop().run_in_executor(thread, function, *args)
    except apsw.Error as error:
        raise translated(error) from error


def _answer(answer: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is not None:
        answer.set_exception(error)
    else:
        answer.set_result(result)
