"""What a store has answered is on the disk, but for claims: one that a power cut takes back was never made."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.core.access import ApiKey, Role
from hookfuse.core.catalog import EventType
from hookfuse.core.delivery import Claim, Deferral, DeliveryState, Place
from hookfuse.core.duty import Duty
from hookfuse.core.endpoint import Stop
from hookfuse.core.record import AuditEntry, Task, TaskKind
from hookfuse.core.upkeep import Sealed
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.stores.sqlite.connections import connected
from hookfuse.testing import ManualClock
from hookfuse.testing.delivery import Bench
from hookfuse.testing.delivery.bench import LEASE
from tests.unit.stores.postgres_scene import execute, message, opened, prepare, sent

pytestmark = pytest.mark.anyio

Ask = Callable[[], Awaitable[Any]]

_TOLD_AT_COMMIT = """
CREATE TABLE public.commits (place bigserial, about text, waits text);
CREATE FUNCTION public.tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO public.commits (about, waits)
    VALUES (TG_TABLE_NAME || ' ' || lower(TG_OP), current_setting('synchronous_commit'));
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER tell AFTER INSERT OR UPDATE ON hookfuse.deliveries
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.tell();
CREATE CONSTRAINT TRIGGER tell AFTER INSERT ON hookfuse.messages
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.tell();
"""


class Disk(apsw.VFS):
    """The file system as SQLite sees it, and how often it was made to wait until the log was on the disk."""

    def __init__(self) -> None:
        self.syncs = 0
        super().__init__("watched", "unix", makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        return File(self, name, flags)


class File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xSync(self, flags: int) -> None:
        self._disk.syncs += self._is_log
        super().xSync(flags)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def disk() -> Iterator[Disk]:
    disk = Disk()
    yield disk
    disk.unregister()


@pytest.fixture
async def bench(disk: Disk, tmp_path: Path) -> AsyncIterator[Bench]:
    clock = ManualClock()
    store = SqliteStore(tmp_path / "hookfuse.db", clock=clock)
    await store.open()
    yield Bench(store, clock)
    await store.close()


async def test_sqlite_syncs_all_but_claims(bench: Bench, disk: Disk, tmp_path: Path) -> None:
    """Every verb that changes something has its commit in the log on the disk when it returns; only claims have not."""
    with contextlib.closing(connected(tmp_path / "hookfuse.db")) as db:
        assert db.execute("PRAGMA journal_mode").get == "wal"
    store = bench.store
    unsynced = []

    async def ask(name: str, verb: Ask) -> Any:
        before = disk.syncs
        answer = await verb()
        if disk.syncs == before:
            unsynced.append(name)
        return answer

    async def claimed() -> tuple[Claim, ...]:
        claims: tuple[Claim, ...] = await ask("claim", bench.claim)
        assert claims
        return claims

    await ask("add_application", bench.application)
    await ask("change_application", lambda: store.change_application("app_1", {"name": "other"}))
    await ask("add_endpoint", lambda: bench.endpoint(secret=b"one"))
    await ask("change_endpoint", lambda: store.change_endpoint("ep_1", {"cap": 3}))
    await ask("reseal", lambda: store.reseal(Sealed("ep_1", b"one", b""), Sealed("ep_1", b"two", b"")))
    await ask("stop_endpoint", lambda: store.stop_endpoint("ep_1", Stop.PAUSED))
    await ask("start_endpoint", lambda: store.start_endpoint("ep_1", Stop.PAUSED))
    await ask("pause_application", lambda: store.pause_application("app_1", True))
    await ask("pause_application", lambda: store.pause_application("app_1", False))

    id_ = await ask("accept", bench.send)
    (claim,) = await claimed()
    await ask("settle", lambda: bench.settle(claim, state=DeliveryState.PENDING))
    (claim,) = await claimed()
    await ask("defer", lambda: store.defer([Deferral(claim, "open", wait_ms=60_000)]))
    await ask("unblock", lambda: store.unblock(["ep_1"]))
    (claim,) = await claimed()
    await ask("disclaim", lambda: store.disclaim([claim.token]))
    await claimed()
    bench.clock.advance(2 * LEASE)
    await ask("rescue", lambda: store.rescue(deaths=3))
    (claim,) = await claimed()
    await ask("settle", lambda: bench.settle(claim))
    await ask("retry", lambda: store.retry([Place(id_, "ep_1")]))
    await ask("cancel", lambda: store.cancel([Place(id_, "ep_1")]))
    await ask("expunge", lambda: store.expunge("app_1", id_))
    bench.clock.advance(1)
    await ask("prune", lambda: store.prune(older_than_ms=bench.now_ms))
    other = await ask("accept_for", lambda: store.accept_for(bench.message(), "ep_1"))
    await ask("add_endpoint", lambda: bench.endpoint("ep_2"))
    await ask("add_deliveries", lambda: store.add_deliveries("ep_2", [other.id]))

    await ask("add_event_type", lambda: store.add_event_type(EventType("a.b")))
    await ask("add_key", lambda: store.add_key(ApiKey("key_1", Role.ADMIN, "one", b"hash")))
    await ask("revoke_key", lambda: store.revoke_key("key_1"))
    await ask("add_audit", lambda: store.add_audit(AuditEntry("audit_1", "key_1", "looked", "app_1")))
    await ask("add_task", lambda: store.add_task(Task("qtask_1", TaskKind.RECOVER, "app_1")))
    await ask("hold_duties", lambda: store.hold_duties([Duty.RESCUE], "me", 1_000))
    await ask("give_up_duties", lambda: store.give_up_duties("me"))
    await ask("delete_endpoint", lambda: store.delete_endpoint("ep_1"))
    await ask("delete_application", lambda: store.delete_application("app_1"))
    assert unsynced == ["claim"] * 5


async def test_postgres_waits_for_the_disk_but_in_claims(postgres_url: str) -> None:
    """Accepting and settling commit with synchronous_commit on; only claiming turns it off, for itself alone."""
    await prepare(postgres_url, lanes=1)
    await _run(postgres_url, _TOLD_AT_COMMIT)
    # One connection for all: what a claim turned off must not stay so.
    async with opened(postgres_url, pool_size=1) as store:
        for number in range(2):
            await store.accept([message(number)])
            claims = (await store.claim(10, lease_ms=60_000, failing_limit=10)).claims
            assert len(claims) == 1
            assert await store.settle(list(map(sent, claims))) == []
    told = await execute(postgres_url, "SELECT about, waits FROM public.commits ORDER BY place")
    accepted = {("messages insert", "on"), ("deliveries insert", "on")}
    claimed, settled = ("deliveries update", "off"), ("deliveries update", "on")
    commits = [tuple(row) for row in told]
    for each in (commits[:4], commits[4:]):
        assert set(each[:2]) == accepted
        assert each[2:] == [claimed, settled]


async def _run(url: str, statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()
