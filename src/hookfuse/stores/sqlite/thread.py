"""A thread with one connection to the database file, which does what coroutines ask of it.

The writer takes everything that was asked while it was busy and does it in one transaction, each job within a
savepoint of its own: one sync to the disk for all of them (group commit), and a job that fails undoes only itself.
Nobody is answered before the commit.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import apsw

from hookfuse.errors import HookfuseError, StoreUnavailable

T = TypeVar("T")
Job = Callable[[apsw.Connection], T]

_MOST_AT_ONCE = 256


class _Asked(NamedTuple, Generic[T]):
    job: Job[T]
    future: asyncio.Future[T]


class _Done(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


class DatabaseThread:
    """Runs jobs one after the other.

    `begin` is how a transaction of this thread begins; `undone` is called when one, or a job of it, was undone.
    """

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        *,
        begin: str,
        name: str,
        undone: Callable[[], None] = lambda: None,
    ) -> None:
        self._connect = connect
        self._begin = begin
        self._undone = undone
        self._asked: queue.SimpleQueue[_Asked[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._thread.start()

    async def ready(self) -> None:
        """Wait for the connection; raises what connecting raised."""
        await self._ready

    async def run(self, job: Job[T]) -> T:
        if not self._thread.is_alive():
            raise StoreUnavailable("The database is closed.")
        future: asyncio.Future[T] = self._loop.create_future()
        self._asked.put(_Asked(job, future))
        return await future

    async def close(self) -> None:
        """Do what was asked, then end."""
        self._asked.put(None)
        await asyncio.to_thread(self._thread.join)

    def _work(self) -> None:
        try:
            connection = self._connect()
        except BaseException as error:
            self._answer([_Done(self._ready, None, translated(error))])
            return
        self._answer([_Done(self._ready, None, None)])
        try:
            while True:
                first = self._asked.get()
                if first is None:
                    return
                batch, ends = [first], False
                while len(batch) < _MOST_AT_ONCE and not self._asked.empty():
                    each = self._asked.get()
                    if each is None:
                        ends = True
                        break
                    batch.append(each)
                self._answer(self._transact(connection, batch))
                if ends:
                    return
        finally:
            connection.close()

    def _transact(self, connection: apsw.Connection, batch: list[_Asked[Any]]) -> list[_Done]:
        done: list[_Done] = []
        try:
            connection.execute(self._begin)
            for asked in batch:
                done.append(self._do(connection, asked))
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._undone()
            lost = translated(error)
            return [_Done(asked.future, None, lost) for asked in batch]
        return done

    def _do(self, connection: apsw.Connection, asked: _Asked[Any]) -> _Done:
        connection.execute("SAVEPOINT job")
        try:
            result = asked.job(connection)
        except BaseException as error:
            if not connection.in_transaction:
                # The database itself gave up the transaction (a full disk): the whole batch is undone.
                raise
            connection.execute("ROLLBACK TO job")
            connection.execute("RELEASE job")
            self._undone()
            return _Done(asked.future, None, translated(error))
        connection.execute("RELEASE job")
        return _Done(asked.future, result, None)

    def _answer(self, done: list[_Done]) -> None:
        try:
            self._loop.call_soon_threadsafe(_resolve, done)
        except RuntimeError:
            # The loop is closed: nobody waits for the answers.
            return


def translated(error: BaseException) -> BaseException:
    """An error of the driver as ours, with the sentence that it deserves."""
    if isinstance(error, HookfuseError) or not isinstance(error, apsw.Error):
        return error
    if isinstance(error, apsw.FullError):
        ours = StoreUnavailable("The disk that holds the database is full; nothing was stored.")
    elif isinstance(error, apsw.BusyError | apsw.LockedError):
        ours = StoreUnavailable("Another program holds the database file; nothing was stored.")
    else:
        ours = StoreUnavailable(f"The database file could not be used: {error}.")
    ours.__cause__ = error
    return ours


def _resolve(done: list[_Done]) -> None:
    for future, result, error in done:
        if future.done():
            continue
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)
