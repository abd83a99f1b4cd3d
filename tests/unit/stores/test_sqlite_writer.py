"""The thread that writes: what it does together, what it undoes, and how it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import pytest

from hookfuse.errors import StoreError, StoreUnavailable
from hookfuse.stores.sqlite.connections import Job, Writer, connected

pytestmark = pytest.mark.anyio


class Book:
    """A file with one table, a writer for it, and how often it was committed and undone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.commits = 0
        self.undone = 0
        self.writer = Writer(self._connect, self._undo)

    def _connect(self) -> apsw.Connection:
        db = connected(self._path)
        db.set_busy_timeout(10_000)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE IF NOT EXISTS lines (text TEXT PRIMARY KEY) STRICT")
        db.set_commit_hook(self._committed)
        return db

    def _committed(self) -> bool:
        self.commits += 1
        return False

    def _undo(self) -> None:
        self.undone += 1

    @property
    def lines(self) -> list[str]:
        return [text for (text,) in connected(self._path).execute("SELECT text FROM lines ORDER BY text")]


def _synced(db: apsw.Connection) -> bool:
    """Whether the commit of this transaction waits for the disk."""
    full = 2
    return bool(db.execute("PRAGMA synchronous").get == full)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[Book]:
    made = Book(tmp_path / "book.db")
    await made.writer.open()
    yield made
    await made.writer.close()


def line(text: str) -> Job[str]:
    def write(db: apsw.Connection) -> str:
        db.execute("INSERT INTO lines VALUES (?)", (text,))
        return text

    return write


def line_and_fail(text: str) -> Job[None]:
    def write(db: apsw.Connection) -> None:
        line(text)(db)
        raise ValueError(text)

    return write


async def test_who_asks_together_shares_a_commit(book: Book) -> None:
    """Jobs of one turn of the loop are one transaction, and each has its own answer."""
    texts = [f"{number:03}" for number in range(200)]
    assert await asyncio.gather(*(book.writer.run(line(text)) for text in texts)) == texts
    assert book.commits == 1
    assert book.lines == texts


async def test_more_than_one_transaction_takes(book: Book) -> None:
    """A thousand at once are done in a few transactions."""
    texts = [f"{number:04}" for number in range(1_000)]
    await asyncio.gather(*(book.writer.run(line(text)) for text in texts))
    assert 4 <= book.commits <= 5
    assert book.lines == texts


async def test_a_job_that_fails_undoes_only_itself(book: Book) -> None:
    """The others of its transaction are committed, once each."""
    jobs: list[Job[object]] = [line("a"), line_and_fail("b"), line("c"), line("a"), line("d")]
    answers = await asyncio.gather(*(book.writer.run(job) for job in jobs), return_exceptions=True)
    assert [type(answer) for answer in answers] == [str, ValueError, str, StoreError, str]
    assert book.lines == ["a", "c", "d"]
    assert book.undone


async def test_a_job_that_fails_alone_leaves_nothing(book: Book) -> None:
    """What it wrote before it failed is undone, and the next job finds no transaction."""
    with pytest.raises(ValueError, match="x"):
        await book.writer.run(line_and_fail("x"))
    await book.writer.run(line("y"))
    assert book.lines == ["y"]


async def test_the_loop_goes_on_while_a_job_takes_long(book: Book) -> None:
    """A job may wait for what the loop does."""
    done = threading.Event()

    def wait(db: apsw.Connection) -> bool:
        return done.wait(10)

    waiting = asyncio.ensure_future(book.writer.run(wait))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_soon(done.set)
    assert await waiting


async def test_a_caller_who_is_cancelled_disturbs_nobody(book: Book) -> None:
    """The job is done all the same, and the others hear of theirs."""
    begun, go = threading.Event(), threading.Event()

    def slow(db: apsw.Connection) -> None:
        begun.set()
        go.wait(10)
        line("slow")(db)

    cancelled = asyncio.ensure_future(book.writer.run(slow))
    other = asyncio.ensure_future(book.writer.run(line("other")))
    await asyncio.to_thread(begun.wait, 10)
    cancelled.cancel()
    go.set()
    assert await other == "other"
    assert cancelled.cancelled()
    assert book.lines == ["other", "slow"]


async def test_closing_does_what_was_asked(book: Book) -> None:
    """Whoever asked before is answered; whoever asks afterwards is told that it is closed."""
    asked = [asyncio.ensure_future(book.writer.run(line(f"{number:03}"))) for number in range(300)]
    await asyncio.sleep(0)
    await book.writer.close()
    assert len(await asyncio.gather(*asked)) == len(book.lines) == 300
    with pytest.raises(StoreUnavailable, match="closed"):
        await book.writer.run(line("late"))
    await book.writer.close()
    assert not any(thread.name == "hookfuse-sqlite-writer" and thread.is_alive() for thread in threading.enumerate())


async def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """Opening says so, and there is nothing to wait for when closing."""
    book = Book(tmp_path / "no" / "such" / "folder.db")
    with pytest.raises(StoreUnavailable, match="unable to open"):
        await book.writer.open()
    await book.writer.close()


async def test_another_program_that_writes(book: Book, tmp_path: Path) -> None:
    """While another program writes to the file a job waits for it, and the loop does not."""
    other = connected(tmp_path / "book.db")
    other.execute("BEGIN IMMEDIATE")
    asked = asyncio.ensure_future(book.writer.run(line("mine")))
    await asyncio.sleep(0)
    other.execute("COMMIT")
    await asked
    assert book.lines == ["mine"]


async def test_what_is_synced(book: Book) -> None:
    """A commit waits for the disk unless all that is in it may be undone by a power cut."""
    assert await book.writer.run(_synced)
    assert not await book.writer.run(_synced, synced=False)
    assert all(await asyncio.gather(book.writer.run(_synced, synced=False), book.writer.run(_synced)))
    assert await book.writer.run(_synced)
