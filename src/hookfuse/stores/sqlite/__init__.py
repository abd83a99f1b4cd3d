"""Messages and deliveries in one SQLite file, for one process.

Every write goes through one connection that commits in groups, reads have one of their own (`connections.py`).
The file is in WAL mode with synchronous=FULL: what was committed survives a power cut. Only claims are not synced: one
that is lost was never made. A second process on the same file is refused.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import apsw

from hookfuse.core.delivery import Attempt, Chosen, Claim, Claims, Deferral, Delivery, Place, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.core.message import Answer, Message, NewMessage, check_message
from hookfuse.core.notice import NoticeRules
from hookfuse.core.state import Transition
from hookfuse.core.stored import check_application, check_changes, check_endpoint
from hookfuse.core.upkeep import Applied, Backlog, Sealed
from hookfuse.errors import StoreError
from hookfuse.ports import Clock
from hookfuse.stores.along import waiting
from hookfuse.stores.kept import Kept, Row
from hookfuse.stores.sql import migrations
from hookfuse.stores.sqlite import breakers, desk, directory, duties, notices, outbox, settle, upkeep
from hookfuse.stores.sqlite.accept import Routes, accept
from hookfuse.stores.sqlite.checkpoints import Checkpoints
from hookfuse.stores.sqlite.claim import Turns, claim
from hookfuse.stores.sqlite.connections import Reader, Writer, connected
from hookfuse.stores.sqlite.leading import Leading
from hookfuse.stores.sqlite.members import Members
from hookfuse.stores.sqlite.notices import Notices
from hookfuse.stores.sqlite.service import add_audit
from hookfuse.stores.sqlite.serving import Serving

__all__ = ["SqliteStore"]

T = TypeVar("T")

_BUSY_MS = 5_000


class _MachineClock:
    def now(self) -> float:
        return time.time()


class SqliteStore(Serving, Notices, Leading, Members):
    """A delivery store in the file `path`. It belongs to the event loop that opens it.

    `notices` says what people are told of, where an application did not choose otherwise.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, clock: Clock | None = None, notices: NoticeRules | None = None
    ) -> None:
        super().__init__()
        self._path = Path(path)
        self._rules = notices or NoticeRules()
        self._clock = clock or _MachineClock()
        self._routes = Routes()
        self._turns: Turns = {}
        self._checkpoints = Checkpoints(self._connect_checkpoints)
        self._writer = Writer(self._connect_writer, undone=self._routes.forget)
        self._reader = Reader(self._connect_reader)
        self._lock: int | None = None
        self._bell = asyncio.Event()

    async def open(self) -> None:
        self._take_lock()
        try:
            await self._writer.open()
            await self._reader.open()
            # The lock is ours, so whoever held leases is gone: what it had in hand need not wait for their end.
            await self._writer.run(settle.end_leases)
            await self._writer.run(notices.end_leases)
            await self._writer.run(duties.end_all)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        await self._reader.close()
        await asyncio.to_thread(self._checkpoints.close)
        await self._writer.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    async def add_application(self, application: Application) -> Application:
        check_application(application)
        return await self._direct(lambda db, now: directory.add_application(db, application, now))

    async def application(self, id_or_uid: str) -> Application | None:
        return await self._read(lambda db: directory.application_of(db, id_or_uid))

    async def change_application(self, id_: str, changes: Mapping[str, Any]) -> Application | None:
        check_changes(Application, changes)
        return await self._direct(lambda db, now: directory.change_application(db, id_, changes, now))

    async def delete_application(self, id_: str) -> bool:
        return await self._direct(lambda db, now: directory.delete_application(db, id_, now))

    async def pause_application(self, id_: str, paused: bool) -> Application | None:
        return await self._direct(lambda db, now: directory.pause_application(db, id_, paused, now), rings=True)

    async def add_endpoint(self, endpoint: Endpoint) -> Endpoint:
        check_endpoint(endpoint)
        return await self._direct(lambda db, now: directory.add_endpoint(db, endpoint, now))

    async def endpoint(self, app_id: str, id_or_uid: str) -> Endpoint | None:
        return await self._read(lambda db: directory.endpoint_of(db, app_id, id_or_uid))

    async def endpoints(self, ids: Sequence[str]) -> Sequence[Endpoint]:
        return await self._read(lambda db: directory.endpoints_of(db, list(ids)))

    async def change_endpoint(
        self, id_: str, changes: Mapping[str, Any], *, version: int | None = None
    ) -> Endpoint | None:
        check_changes(Endpoint, changes)
        return await self._direct(lambda db, now: directory.change_endpoint(db, id_, changes, version, now), rings=True)

    async def stop_endpoint(
        self,
        id_: str,
        stop: Stop,
        reason: str = "",
        *,
        because: Transition | None = None,
        tenure: Tenure | None = None,
    ) -> Endpoint | None:
        return await self._direct(
            lambda db, now: outbox.stop_endpoint(db, id_, stop, reason, because, tenure, self._rules, now)
        )

    async def start_endpoint(self, id_: str, stop: Stop) -> Endpoint | None:
        return await self._direct(lambda db, now: outbox.start_endpoint(db, id_, stop, self._rules, now), rings=True)

    async def delete_endpoint(self, id_: str) -> bool:
        return await self._direct(lambda db, now: directory.delete_endpoint(db, id_, now))

    async def accept(self, messages: Sequence[NewMessage]) -> Sequence[Answer]:
        for message in messages:
            check_message(message)
        return await self._write(lambda db, now: accept(db, self._routes, messages, now), rings=True)

    async def claim(self, limit: int, *, lease_ms: int, failing_limit: int, token: int | None = None) -> Claims:
        # A claim that a power cut undoes was never made.
        return await self._write(
            lambda db, now: claim(db, limit, lease_ms, failing_limit, token, self._turns, now), synced=False
        )

    async def disclaim(self, tokens: Sequence[int]) -> Mapping[int, int]:
        found = await self._write(lambda db, now: settle.disclaim(db, tokens, now))
        if found:
            self._bell.set()
        return found

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[Claim]:
        return await self._write(lambda db, now: outbox.settle(db, settlements, self._rules, now), rings=True)

    async def defer(self, deferrals: Sequence[Deferral]) -> None:
        await self._write(lambda db, now: settle.defer(db, deferrals, now), rings=True)

    async def unblock(self, endpoint_ids: Sequence[str]) -> None:
        await self._write(lambda db, now: settle.unblock(db, endpoint_ids), rings=True)

    async def rescue(self, *, deaths: int, limit: int = 1000, tenure: Tenure | None = None) -> Rescued:
        return await self._write(lambda db, now: outbox.rescue(db, deaths, limit, tenure, self._rules, now), rings=True)

    async def older(self, than_ms: int) -> int:
        return await self._read(lambda db: desk.older(db, than_ms))

    async def prune(self, *, older_than_ms: int, limit: int = 1000, tenure: Tenure | None = None) -> int:
        return await self._write(lambda db, now: desk.prune(db, older_than_ms, limit, tenure, now))

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._bell.wait()
        except TimeoutError:
            return
        self._bell.clear()

    async def message(self, app_id: str, id_or_uid: str) -> Message | None:
        return await self._read(lambda db: desk.message_of(db, app_id, id_or_uid))

    async def delivery(self, message_id: str, endpoint_id: str) -> Delivery | None:
        return await self._read(lambda db: desk.delivery_of(db, message_id, endpoint_id))

    async def deliveries(self, chosen: Chosen, *, after: Place | None = None, limit: int = 100) -> Sequence[Delivery]:
        return await self._read(lambda db: desk.deliveries(db, chosen, after, limit))

    async def count(self, chosen: Chosen) -> int:
        return await self._read(lambda db: desk.count(db, chosen))

    async def attempts(self, message_id: str, endpoint_id: str | None = None) -> Sequence[Attempt]:
        return await self._read(lambda db: desk.attempts(db, message_id, endpoint_id))

    async def retry(self, pairs: Sequence[Place]) -> int:
        return await self._write(lambda db, now: desk.retry(db, pairs, now), rings=True)

    async def cancel(self, pairs: Sequence[Place]) -> int:
        return await self._write(lambda db, now: desk.cancel(db, pairs, now))

    async def expunge(self, app_id: str, message_id: str) -> bool:
        return await self._write(lambda db, now: desk.expunge(db, app_id, message_id, now))

    async def kept_breakers(self) -> Kept:
        return await self._read(breakers.read)

    async def keep_breakers(self, rows: Sequence[Row], last: int, made: Sequence[Transition]) -> None:
        def keeping(db: apsw.Connection, now: int) -> bool:
            breakers.write(db, rows, last)
            outbox.keep(db, made, self._rules, now)
            return bool(made)

        await self._write(keeping)

    async def forget_breakers(self) -> None:
        await self._write(breakers.forget)

    async def backlog(self) -> Backlog:
        return await self._read(lambda db: upkeep.backlog(db, self._now_ms()))

    async def sealed_page(self, after: str, limit: int) -> Sequence[Sealed]:
        return await self._read(lambda db: upkeep.sealed_page(db, after, limit))

    async def reseal(self, before: Sealed, after: Sealed) -> bool:
        return await self._write(lambda db, now: upkeep.reseal(db, before, after))

    async def applied_migrations(self) -> Sequence[Applied]:
        return await self._read(upkeep.applied_migrations)

    async def _write(self, job: Callable[[apsw.Connection, int], T], *, rings: bool = False, synced: bool = True) -> T:
        """Run a job of the writer. What it answers is true if it changed something that people handle."""
        along = waiting()

        def run(db: apsw.Connection) -> T:
            now = self._now_ms()
            result = job(db, now)
            if along is not None and result:
                add_audit(db, along.entry(), now)
            return result

        result = await self._writer.run(run, synced=synced)
        if along is not None and result:
            along.written = True
        if rings:
            self._bell.set()
        return result

    async def _direct(self, job: Callable[[apsw.Connection, int], T], *, rings: bool = False) -> T:
        """A change of the directory, after which routes are read anew."""

        def changing(db: apsw.Connection, now: int) -> T:
            self._routes.forget()
            return job(db, now)

        return await self._write(changing, rings=rings)

    async def _read(self, job: Callable[[apsw.Connection], T]) -> T:
        return await self._reader.run(job)

    def _now_ms(self) -> int:
        return int(self._clock.now() * 1000)

    def _take_lock(self) -> None:
        """One process per file: a second one would not hear of what this one does."""
        try:
            lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(f"The database file {self._path} cannot be made: {error.strerror}.") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock)
            raise StoreError(
                f"Another process uses {self._path}. SQLite serves one process; use Postgres for more."
            ) from error
        self._lock = lock

    def _connect_writer(self) -> apsw.Connection:
        db = connected(self._path)
        db.set_busy_timeout(_BUSY_MS)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA cache_size = -65536")
        self._migrate(db)
        self._checkpoints.watch(db)
        return db

    def _connect_checkpoints(self) -> apsw.Connection:
        db = connected(self._path)
        # It knows of the log only once it has looked at the file.
        db.execute("PRAGMA journal_mode = WAL")
        return db

    def _connect_reader(self) -> apsw.Connection:
        db = connected(self._path, apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(_BUSY_MS)
        return db

    def _migrate(self, db: apsw.Connection) -> None:
        with db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS migrations"
                " (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_ms INTEGER NOT NULL)"
            )
            applied = int(db.execute("SELECT coalesce(max(number), 0) FROM migrations").get)
            known = migrations("hookfuse.stores.sqlite")
            if applied > known[-1].number:
                raise StoreError(f"{self._path} was made by a newer Hookfuse; install that version or a newer one.")
            for each in known:
                if each.number > applied:
                    db.execute(each.text)
                    db.execute("INSERT INTO migrations VALUES (?, ?, ?)", (each.number, each.name, self._now_ms()))
