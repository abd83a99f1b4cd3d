"""The store behind PgBouncer, where the connection to the server changes with every transaction."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.app.parts import station_settings
from hookfuse.app.station import Station
from hookfuse.config import load
from hookfuse.core.delivery import Chosen, Claim, Deferral, DeliveryState, Place, Settlement
from hookfuse.core.duty import Duty
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.stores.postgres import PostgresStore
from hookfuse.stores.postgres.connections import Connections, Purpose
from hookfuse.testing.receivers import Ok, Receivers
from tests.servers.packages import install, missing
from tests.servers.ports import free_port

STARTS_WITHIN = 10.0
OPEN = Chosen("app_1", states=(DeliveryState.PENDING, DeliveryState.SENDING))

SETTINGS = """
[databases]
* = host={host} port={port} user={user}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = 3
"""


def find_pgbouncer() -> str:
    """The program, installed if we may."""
    if shutil.which("pgbouncer") is None:
        install("pgbouncer")
    return shutil.which("pgbouncer") or missing("no pgbouncer was found, and none could be installed")


@pytest.fixture
def pooler_url(postgres_url: str, tmp_path: Path) -> Iterator[str]:
    """The database of the test through a pooler with three connections for everybody."""
    program = find_pgbouncer()
    server = urlsplit(postgres_url)
    listen = free_port()
    settings = tmp_path / "pgbouncer.ini"
    settings.write_text(SETTINGS.format(host=server.hostname, port=server.port, user=server.username, listen=listen))
    # It refuses to run as root; nobody may not look into our folder, so it reads its settings from its input.
    user = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None
    with settings.open() as text:
        process = subprocess.Popen(
            [program, "-q", "/dev/stdin"], stdin=text, user=user, cwd="/", stderr=subprocess.PIPE
        )
    try:
        _until_it_listens(process, listen)
        yield f"postgresql://{server.username}@127.0.0.1:{listen}{server.path}"
    finally:
        process.terminate()
        process.communicate()


def _until_it_listens(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        if process.poll() is not None:
            assert process.stderr is not None
            pytest.fail(f"pgbouncer ended: {process.stderr.read().decode()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    pytest.fail("pgbouncer did not start")


def message(number: int) -> NewMessage:
    return NewMessage(f"msg_{number:06}", "app_1", "type", b"{}", idempotency_key=f"key_{number}")


def ended(claim: Claim, number: int) -> Settlement:
    """Some have to be sent once more."""
    if number % 5 == 0 and claim.spent == 0:
        return Settlement(claim, DeliveryState.PENDING, "again", healthy=None)
    return Settlement(claim, DeliveryState.SENT, "", healthy=True)


def test_everything_works_behind_a_pooler(pooler_url: str) -> None:
    """Two stores with more connections than the pooler has deliver everything once, with every verb in between."""

    async def work(store: PostgresStore, done: Counter[Place]) -> None:
        while await store.count(OPEN):
            found = await store.claim(10, lease_ms=60_000, failing_limit=10)
            ends = [ended(claim, number) for number, claim in enumerate(found.claims)]
            stale = await store.settle(ends)
            assert list(stale) == []
            done.update(
                Place(each.claim.message_id, each.claim.endpoint_id)
                for each in ends
                if each.state is DeliveryState.SENT
            )

    async def scenario() -> None:
        stores = [PostgresStore(pooler_url, pooled=True, deadline=30) for _ in range(2)]
        await asyncio.gather(*(store.open() for store in stores))
        one, two = stores
        await one.add_application(Application("app_1", "x"))
        for number in range(6):
            await two.add_endpoint(Endpoint(f"ep_{number}", "app_1", "https://example.com"))
        answers = await asyncio.gather(*(store.accept([message(n)]) for n in range(60) for store in stores))
        assert all(isinstance(answer, Accepted) for (answer,) in answers)
        assert sum(not answer.repeated for (answer,) in answers if isinstance(answer, Accepted)) == 60
        lost = await one.claim(6, lease_ms=60_000, failing_limit=10, token=1)
        assert await two.disclaim([1]) == {1: len(lost.claims)}
        await one.claim(6, lease_ms=1, failing_limit=10)
        async with asyncio.timeout(30):
            returned = 0
            while returned < 6:
                returned += (await two.rescue(deaths=3)).returned
        given_back = await one.claim(6, lease_ms=60_000, failing_limit=10)
        await two.defer([Deferral(claim, "released") for claim in given_back.claims])
        assert [each.duty for each in await one.hold_duties([Duty.RESCUE], "one", 60_000)] == [Duty.RESCUE]
        assert await two.hold_duties([Duty.RESCUE], "two", 60_000) == []
        await one.give_up_duties("one")
        assert [each.duty for each in await two.hold_duties([Duty.RESCUE], "two", 60_000)] == [Duty.RESCUE]
        done: Counter[Place] = Counter()
        await asyncio.gather(*(work(store, done) for store in stores for _ in range(4)))
        assert len(done) == 360
        assert set(done.values()) == {1}
        assert await one.retry([Place("msg_000001", "ep_1")]) == 1
        assert await two.cancel([Place("msg_000001", "ep_1")]) == 1
        assert await one.expunge("app_1", "msg_000002")
        assert await two.prune(older_than_ms=1 << 50, limit=1000) == 60
        for store in stores:
            await store.close()

    asyncio.run(scenario())


def test_limits_hold_behind_a_pooler(pooler_url: str) -> None:
    """The limits of time are part of every transaction, and nothing of them is left to the next user."""
    shown = "SELECT current_setting('statement_timeout') || ' ' || current_setting('lock_timeout')"

    async def scenario() -> None:
        connections = Connections(pooler_url, size=1, pooled=True, deadline=2.0)
        await connections.open()
        assert await connections.alone(Purpose.DELIVER, lambda db: db.fetchval(shown)) == "1600ms 1200ms"
        assert await connections.together(Purpose.DESK, lambda db: db.fetchval(shown)) == "1600ms 1200ms"
        await connections.close()
        plain = await asyncpg.connect(pooler_url, statement_cache_size=0)
        async with plain.transaction():
            assert await plain.fetchval(shown) == "0 0"
        await plain.close()

    asyncio.run(scenario())


def test_woken_past_the_pooler(pooler_url: str, postgres_url: str) -> None:
    """With the server itself as `listen_url`, who waits is woken by an acceptance in another process's store."""

    async def scenario() -> None:
        worker = PostgresStore(pooler_url, pooled=True, listen_url=postgres_url)
        producer = PostgresStore(pooler_url, pooled=True)
        await worker.open()
        await producer.open()
        await producer.add_application(Application("app_1", "x"))
        await producer.add_endpoint(Endpoint("ep_1", "app_1", "https://example.com"))
        async with asyncio.timeout(30):
            while not worker._bell._hears:
                await asyncio.sleep(0.01)
            await worker.wait(0)
            waiting = asyncio.ensure_future(worker.wait(60))
            await asyncio.sleep(0)
            await producer.accept([message(1)])
            await waiting
        assert len((await worker.claim(1, lease_ms=1000, failing_limit=1)).claims) == 1
        await worker.close()
        await producer.close()

    asyncio.run(scenario())


def test_a_station_behind_a_pooler(pooler_url: str, postgres_url: str, tmp_path: Path) -> None:
    """As the settings say: deliveries go out behind a pooler, and the server itself wakes the worker."""
    environment = {
        "HOOKFUSE_DATA_DIR": str(tmp_path),
        "HOOKFUSE_DATABASE_URL": pooler_url,
        "HOOKFUSE_DATABASE_POOLED": "true",
        "HOOKFUSE_DATABASE_LISTEN_URL": postgres_url,
        "HOOKFUSE_ALLOWED_NETWORKS": "127.0.0.0/8",
    }

    async def scenario() -> None:
        async with (
            asyncio.timeout(30),
            Receivers() as receivers,
            Station(station_settings(load(environment).settings)) as station,
        ):
            await station.store.add_application(Application("app_1", "x"))
            await station.store.add_endpoint(Endpoint("ep_1", "app_1", receivers.add("shop", Ok())))
            while not station.store._bell._hears:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
            working = asyncio.create_task(station.worker.run())
            for number in range(20):
                await station.store.accept([message(number)])
                await receivers["shop"].arrived(number + 1)
            station.worker.stop()
            await working
            assert await station.store.count(OPEN) == 0

    asyncio.run(scenario())
