"""Copying the log into the database file: beside the writer, for as long as it writes, and nothing stays behind."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from hookfuse.stores.sqlite.checkpoints import Checkpoints
from hookfuse.stores.sqlite.connections import connected

EVERY = 16
PATIENCE = 20.0


class Watched(apsw.Connection):
    """The connection of the thread: it copies when it may, and says when it has."""

    may_copy: threading.Event
    copied: threading.Event

    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
        assert self.may_copy.wait(PATIENCE)
        done = super().wal_checkpoint(dbname, mode)
        self.copied.set()
        return done


class Book:
    """A file, a connection that writes to it, and who copies its log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.log = path.with_name(path.name + "-wal")
        self.may_copy, self.copied = threading.Event(), threading.Event()
        self._numbers = itertools.count()
        self.db = connected(path)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.execute("CREATE TABLE lines (number INTEGER PRIMARY KEY, text TEXT) STRICT")
        self.checkpoints = Checkpoints(self._connect, every=EVERY)
        self.checkpoints.watch(self.db)

    def _connect(self) -> apsw.Connection:
        db = Watched(str(self.path))
        db.may_copy, db.copied = self.may_copy, self.copied
        db.execute("PRAGMA journal_mode = WAL")
        return db

    def write(self) -> None:
        self.db.execute("INSERT INTO lines VALUES (?, ?)", (next(self._numbers), "x" * 1_000))

    def write_until(self, true: Callable[[], bool]) -> None:
        ends = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < ends
            self.write()

    @property
    def salt(self) -> bytes:
        """Another one each time that the log begins anew."""
        return self.log.read_bytes()[16:24]

    @property
    def pages(self) -> int:
        return self.path.stat().st_size // 4_096

    def close(self) -> None:
        self.may_copy.set()
        self.checkpoints.close()
        self.db.close()


@pytest.fixture
def book(tmp_path: Path) -> Iterator[Book]:
    made = Book(tmp_path / "book.db")
    yield made
    made.close()


def test_the_log_is_copied_beside_the_writer(book: Book) -> None:
    """The commit that makes the log long enough returns before anything is copied; the thread copies it then."""
    before = book.pages
    for _ in range(EVERY):
        book.write()
    assert book.pages == before
    book.may_copy.set()
    assert book.copied.wait(PATIENCE)
    assert book.pages > before


def test_the_log_begins_anew_beside_a_writer_that_never_rests(book: Book) -> None:
    """There is always a little left that the thread has not seen, and yet the log does not grow for ever."""
    book.may_copy.set()
    book.write()
    first = book.salt
    book.write_until(lambda: book.salt != first)
    second = book.salt
    book.write_until(lambda: book.salt != second)


def test_a_thread_that_does_not_keep_up(book: Book) -> None:
    """The writer copies the log itself before it is much too long."""
    before = book.pages
    book.write_until(lambda: book.pages > before)
    assert not book.copied.is_set()


def test_a_log_that_cannot_be_copied_now(book: Book, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk stops no commit; the log is copied when there is room again."""
    full = threading.Event()

    def fail(db: Watched, dbname: str | None = None, mode: int = 0) -> tuple[int, int]:
        full.set()
        raise apsw.FullError("full")

    with monkeypatch.context() as patch:
        patch.setattr(Watched, "wal_checkpoint", fail)
        book.write_until(full.is_set)
    book.may_copy.set()
    book.write_until(book.copied.is_set)


def test_it_goes_on_after_a_close(book: Book) -> None:
    """Who opens the file again has its log copied again."""
    book.checkpoints.close()
    book.checkpoints.watch(book.db)
    book.may_copy.set()
    book.write_until(book.copied.is_set)


def test_nothing_is_left_of_the_log(book: Book) -> None:
    """Whoever closes the file last copies the rest and removes the log, and everything is there."""
    for _ in range(3 * EVERY):
        book.write()
    book.close()
    assert not book.log.exists()
    assert connected(book.path).execute("SELECT count(*) FROM lines").get == 3 * EVERY
