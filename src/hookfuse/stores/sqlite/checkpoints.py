"""Copies the log into the database file, beside the writer instead of by it.

SQLite's own way is that the commit which makes the log long enough copies it, and whoever waits for that commit waits
for thousands of pages: 6 to 10 ms, where a commit takes one. Here a thread with a connection of its own does so while
commits go on. Only when nothing is left to copy can the log begin anew, and beside a busy writer there is always a
little: so once the log is long, the writer itself copies what the thread left. It copies all of it if the thread cannot
keep up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

import apsw

_log = logging.getLogger("hookfuse.sqlite")

EVERY_PAGES = 8_192
"""32 MB"""
_LONG = 2
"""After so many times the thread has copied, the log is to begin anew."""
_TOO_LONG = 8
"""After so many times it has not kept up."""


class Checkpoints:
    """The thread, and what the writer tells it. `connect` opens the connection of the thread."""

    def __init__(self, connect: Callable[[], apsw.Connection], *, every: int = EVERY_PAGES) -> None:
        self._connect = connect
        self._every = every
        self._wanted = Event()
        self._thread: Thread | None = None

    def watch(self, db: apsw.Connection) -> None:
        """From now on, the commits of this connection tell how long the log is."""
        self._pages, self._next = 0, self._every
        self._ending = self._rest_is_small = False
        self._wanted.clear()
        db.set_wal_hook(self._committed)
        self._thread = Thread(target=self._live, name="hookfuse-sqlite-checkpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Before the last connection is closed: that one copies what is left, and removes the log."""
        if self._thread is not None:
            self._ending = True
            self._wanted.set()
            self._thread.join()
            self._thread = None

    def _committed(self, db: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._pages:
            # It has begun anew.
            self._next = self._every
        self._pages = pages
        if self._rest_is_small:
            self._rest_is_small = False
            _copy(db)
        elif pages >= self._next:
            self._next = pages + self._every
            if pages >= _TOO_LONG * self._every:
                _copy(db)
            else:
                self._wanted.set()
        return apsw.SQLITE_OK

    def _live(self) -> None:
        """The life of the thread."""
        db = self._connect()
        while True:
            self._wanted.wait()
            if self._ending:
                break
            self._wanted.clear()
            self._rest_is_small = _copy(db) and self._pages >= _LONG * self._every
        db.close()


def _copy(db: apsw.Connection) -> bool:
    """As much of the log as nobody reads. What cannot be copied now stays in the log, and is copied later."""
    try:
        db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.BusyError:
        return False
    except apsw.Error as error:
        _log.warning("the log could not be copied into the database file: %s", error)
        return False
    return True
