"""A disk that is full, and has room again."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import apsw
import pytest

from hookfuse.app.station import Station
from hookfuse.errors import StoreUnavailable
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing.receivers import Ok
from tests.faults.delivery.databases import PostgresDatabase, SqliteDatabase, messages
from tests.faults.delivery.producer import Producer
from tests.faults.delivery.site import Site, until, working
from tests.faults.delivery.sizes import Sizes, seed
from tests.faults.delivery.station import new_message
from tests.ledgers import Told
from tests.servers.packages import missing

pytestmark = pytest.mark.anyio


class Tight(SqliteStore):
    """A store on a disk that is full after so many pages, for those who may not mount one."""

    pages = 80

    def _connect_writer(self) -> apsw.Connection:
        db = super()._connect_writer()
        db.execute(f"PRAGMA max_page_count = {self.pages}")
        self.room = lambda: db.execute("PRAGMA max_page_count = 1000000")
        return db


class Disk:
    """A small disk, with something on it that can be thrown away."""

    def __init__(self, folder: Path, size: int, ballast: int) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"
        self._size = size
        self._ballast_size = ballast

    def mount(self) -> None:
        if os.geteuid() != 0:
            missing("only root may mount a small disk")
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={self._size}", "tmpfs", self.folder], capture_output=True, check=False
        )
        if done.returncode != 0:
            missing("a small disk cannot be mounted here")
        self.folder.chmod(0o755)
        self._ballast.write_bytes(bytes(self._ballast_size))

    def make_room(self) -> None:
        self._ballast.unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", self.folder], check=False)


@pytest.fixture
def disk() -> Iterator[Disk]:
    # Not in pytest's own folder: another user, who runs Postgres, may not go there.
    with tempfile.TemporaryDirectory(prefix="hookfuse-disk-") as folder:
        Path(folder).chmod(0o755)
        made = Disk(Path(folder), size=24 << 20, ballast=12 << 20)
        made.mount()
        yield made
        made.unmount()


@pytest.fixture(params=["sqlite", "postgres"])
def beside(request: pytest.FixtureRequest) -> PostgresDatabase | None:
    """A database on the server that is to have another one on the small disk."""
    return request.getfixturevalue("postgres_database") if request.param == "postgres" else None


@pytest.fixture
async def cramped(tmp_path: Path, disk: Disk, sizes: Sizes, beside: PostgresDatabase | None) -> AsyncIterator[Site]:
    """A site whose database is on the small disk."""
    database = SqliteDatabase(disk.folder) if beside is None else await _on_disk(beside, disk)
    made = Site(tmp_path, database, sizes, seed())
    with made.receivers:
        yield made
    if beside is not None:
        await beside.rows("DROP DATABASE cramped WITH (FORCE)")
        await beside.rows("DROP TABLESPACE small")


async def _on_disk(beside: PostgresDatabase, disk: Disk) -> PostgresDatabase:
    place = disk.folder / "tables"
    place.mkdir()
    owner = (await beside.rows("SELECT current_setting('data_directory')"))[0][0]
    os.chown(place, os.stat(owner).st_uid, -1)
    await beside.rows(f"CREATE TABLESPACE small LOCATION '{place}'")
    await beside.rows("CREATE DATABASE cramped TEMPLATE template0 TABLESPACE small")
    return PostgresDatabase(beside.url.rpartition("/")[0] + "/cramped")


async def test_d3_a_full_disk(cramped: Site, disk: Disk) -> None:
    """On a full disk nobody is told yes without a commit, and when there is room all goes on."""
    await cramped.endpoints({"ep_1": Ok()}, cap=8)
    async with cramped.station() as station, working(station.worker):
        producer = await _fill(cramped, station)
        disk.make_room()
        await _goes_on(cramped, station, producer)


async def test_d3_no_more_pages(tmp_path: Path, sizes: Sizes, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same where no disk can be mounted: SQLite may not grow, and then it may."""
    monkeypatch.setattr("hookfuse.stores.sqlite.SqliteStore", Tight)
    site = Site(tmp_path, SqliteDatabase(tmp_path), sizes, seed())
    with site.receivers:
        await site.endpoints({"ep_1": Ok()}, cap=8)
        async with site.station() as station, working(station.worker):
            assert isinstance(station.store, Tight)
            producer = await _fill(site, station)
            await station.store._write(lambda db, now: station.store.room())  # type: ignore[attr-defined]
            await _goes_on(site, station, producer)


async def _fill(site: Site, station: Station) -> Producer:
    """Send large messages until the disk is full, and one more; returns who sent them."""
    producer = site.producer()
    for number in range(1_000):
        if not await _taken(station, producer, f"big-{number}", _large(100_000)):
            break
    assert not await _taken(station, producer, "one more", _large(500_000))
    assert await messages(site.database) == sum(each.told is Told.OK for each in producer.produced)
    return producer


def _large(size: int) -> bytes:
    return f'"{os.urandom(size).hex()}"'.encode()


async def _taken(station: Station, producer: Producer, key: str, payload: bytes) -> bool:
    message = new_message(key, payload)
    try:
        await station.acceptor.accept(message)
    except StoreUnavailable:
        # There was no room, so it is nowhere, and must not turn up when there is.
        producer.note(message.id, payload, Told.FAILED)
        return False
    producer.note(message.id, payload)
    return True


async def _goes_on(site: Site, station: Station, producer: Producer) -> None:
    tries = count()

    async def accepts() -> bool:
        number = next(tries)
        return await _taken(station, producer, f"small-{number}", b"%d" % number)

    await until(accepts)
    await site.rest()
    # What was answered and could not be settled is sent again after its lease.
    report = await site.report(producer, duplicates=site.sizes.slots)
    assert report.sound, report
