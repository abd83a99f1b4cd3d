"""The two connections to the database file: one that writes, and one that reads the last commit.

The writer lives in a thread of its own, so that SQLite works while the event loop does. Its jobs run few statements,
each over many rows (`bulk.py`): after every call into SQLite the thread queues up for the interpreter's lock, and
thousands of small calls beside a busy loop would take ten times as long.

What is asked while a transaction is under way runs in the next one, all of it together: one sync to the disk for
everyone (group commit). If a job fails, everything is undone and done again with each job in a savepoint of its own,
so that it undoes only itself; with savepoints from the start SQLite would copy every page before it changes. So jobs
may run twice. Nobody is answered before the commit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import apsw

from hookfuse.errors import HookfuseError, InvalidInput, StoreError, StoreUnavailable

T = TypeVar("T")
Job: TypeAlias = Callable[[apsw.Connection], T]

_MOST_AT_ONCE = 256
_STATEMENTS = 400
"""How many a connection keeps prepared: more than there are, each in the sizes that are common."""


def connected(
    path: str | os.PathLike[str], flags: int = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
) -> apsw.Connection:
    """A connection that plans a statement once, whatever values it is given."""
    db = apsw.Connection(os.fspath(path), flags=flags, statementcachesize=_STATEMENTS)
    # Where it may use a partial index or a range, SQLite looks at the values, and plans anew for each new one: for the
    # head of a lane that takes longer than reading it. Our plans are the same for all values.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return db


class _Asked(NamedTuple, Generic[T]):
    job: Job[T]
    answer: asyncio.Future[T]
    synced: bool


class _Done(NamedTuple):
    answer: asyncio.Future[Any]
    result: Any = None
    error: Exception | None = None


class Writer:
    """`undone` is called, by the thread, when a transaction, or a job of one, was undone."""

    def __init__(self, connect: Callable[[], apsw.Connection], undone: Callable[[], None]) -> None:
        self._connect = connect
        self._undone = undone
        self._asked: list[_Asked[Any]] = []
        self._batches: SimpleQueue[list[_Asked[Any]]] = SimpleQueue()
        self._open = False
        self._synced: bool | None = None
        self._ended: asyncio.Future[None] | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        self._ended = loop.create_future()
        # A daemon: a program that ends without closing the store must not wait for it. SQLite survives that.
        live = partial(self._live, loop, opened, self._ended)
        self._thread = Thread(target=live, name="hookfuse-sqlite-writer", daemon=True)
        self._thread.start()
        await opened
        self._open = True

    async def run(self, job: Job[T], *, synced: bool = True) -> T:
        """Returns when what the job did is committed. A power cut may undo what is not `synced` to the disk."""
        if not self._open:
            raise StoreUnavailable("The database is closed.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        if not self._asked:
            # Those who ask in the same turn of the loop go together.
            loop.call_soon(self._hand_over)
        self._asked.append(_Asked(job, answer, synced))
        return await answer

    async def close(self) -> None:
        """Do what was asked, then end."""
        self._open = False
        if self._ended is not None:
            self._hand_over()
            self._batches.put([])
            await asyncio.wait([self._ended])
            self._thread.join()

    def _hand_over(self) -> None:
        asked, self._asked = self._asked, []
        for start in range(0, len(asked), _MOST_AT_ONCE):
            self._batches.put(asked[start : start + _MOST_AT_ONCE])

    def _live(self, loop: asyncio.AbstractEventLoop, opened: asyncio.Future[None], ended: asyncio.Future[None]) -> None:
        """The life of the thread."""
        try:
            db = self._connect()
        except Exception as error:
            _tell(loop, [_Done(opened, None, translated(error)), _Done(ended)])
            return
        _tell(loop, [_Done(opened)])
        try:
            while batch := self._take():
                _tell(loop, self._transact(db, batch))
            db.close()
        finally:
            _tell(loop, [_Done(ended)])

    def _take(self) -> list[_Asked[Any]]:
        """What was asked by now, as soon as there is something; nothing: it is time to end."""
        taken = self._batches.get()
        while taken and len(taken) < _MOST_AT_ONCE:
            try:
                more = self._batches.get_nowait()
            except Empty:
                break
            if not more:
                self._batches.put(more)
                break
            taken += more
        return taken

    def _transact(self, db: apsw.Connection, batch: list[_Asked[Any]], *, apart: bool = False) -> list[_Done]:
        begun = False
        try:
            self._choose_sync(db, any(asked.synced for asked in batch))
            db.execute("BEGIN IMMEDIATE")
            begun = True
            done = [self._do_apart(db, asked) if apart else _do(db, asked) for asked in batch]
            db.execute("COMMIT")
        except Exception as error:
            with suppress(apsw.Error):
                if db.in_transaction:
                    db.execute("ROLLBACK")
            self._undone()
            if begun and len(batch) > 1 and not apart:
                return self._transact(db, batch, apart=True)
            failed = translated(error)
            return [_Done(asked.answer, None, failed) for asked in batch]
        return done

    def _choose_sync(self, db: apsw.Connection, synced: bool) -> None:
        # Whatever is synced later has everything before it on the disk too: the log is one file.
        if synced is not self._synced:
            db.execute("PRAGMA synchronous = FULL" if synced else "PRAGMA synchronous = NORMAL")
            self._synced = synced

    def _do_apart(self, db: apsw.Connection, asked: _Asked[Any]) -> _Done:
        db.execute("SAVEPOINT job")
        try:
            done = _do(db, asked)
        except Exception as error:
            if not db.in_transaction:
                # The database itself gave up the transaction (a full disk): the whole batch is undone.
                raise
            db.execute("ROLLBACK TO job")
            self._undone()
            done = _Done(asked.answer, None, translated(error))
        db.execute("RELEASE job")
        return done


def _do(db: apsw.Connection, asked: _Asked[Any]) -> _Done:
    return _Done(asked.answer, asked.job(db))


def _tell(loop: asyncio.AbstractEventLoop, done: list[_Done]) -> None:
    # A loop that was closed has nobody who waits for an answer.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_answer, done)


def _answer(done: list[_Done]) -> None:
    for answer, result, error in done:
        if answer.done():
            continue
        if error is None:
            answer.set_result(result)
        else:
            answer.set_exception(error)


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
    ours: HookfuseError
    if isinstance(error, UnicodeEncodeError | OverflowError):
        ours = InvalidInput(f"SQLite cannot hold this value: {error}.")
    elif not isinstance(error, apsw.Error):
        return error
    elif isinstance(error, apsw.ConstraintError):
        ours = StoreError(f"SQLite refused: {error}.")
    elif isinstance(error, apsw.FullError):
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
    except (apsw.Error, UnicodeEncodeError, OverflowError) as error:
        raise translated(error) from error
