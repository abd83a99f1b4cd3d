"""The Postgres servers that other tests rely on."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.servers.postgres import OLDEST, Server, empty_database, serving

ROOT = Path(__file__).parents[3]
PATIENCE = 20.0

# What a test run does: start a server, then work until it is ended.
OWNER = """
import signal
from tests.servers.postgres import serving
with serving() as server:
    print(server.socket_url, flush=True)
    signal.pause()
"""


async def fetch(url: str, query: str) -> Any:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


def ask(url: str, query: str) -> Any:
    return asyncio.run(fetch(url, query))


def name_of(url: str) -> str:
    """The database; a URL with a socket has more slashes behind it."""
    return urlsplit(url).path[1:]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving({"fsync": "on"}) as server:
        yield server


def test_version(postgres_url: str) -> None:
    """The server is of a version that we support."""
    assert int(ask(postgres_url, "SHOW server_version_num")) >= OLDEST * 10_000


@pytest.mark.parametrize("turn", [1, 2])
def test_each_test_has_an_empty_database(postgres_url: str, turn: int) -> None:
    """What one test leaves behind is not there for the next."""
    assert ask(postgres_url, "SELECT to_regclass('left_behind')") is None
    ask(postgres_url, "CREATE TABLE left_behind ()")


def test_databases_are_dropped(postgres_server: str) -> None:
    """A database is dropped in the end, even with a connection open."""

    async def scenario() -> None:
        with_database = empty_database(postgres_server)
        url = await asyncio.to_thread(with_database.__enter__)
        count = f"SELECT count(*) FROM pg_database WHERE datname = '{name_of(url)}'"
        connection = await asyncpg.connect(url)
        assert await fetch(postgres_server, count) == 1
        await asyncio.to_thread(with_database.__exit__, None, None, None)
        assert await fetch(postgres_server, count) == 0
        connection.terminate()

    asyncio.run(scenario())


def test_a_template_of_ones_own(postgres_server: str) -> None:
    """A database may be the copy of a prepared one."""
    with empty_database(postgres_server) as prepared:
        ask(prepared, "CREATE TABLE prepared ()")
        with empty_database(postgres_server, template=name_of(prepared)) as copy:
            assert ask(copy, "SELECT to_regclass('prepared')::text") == "prepared"


def test_settings(postgres_server: str, server: Server) -> None:
    """Unit tests run without fsync; a server that is asked for it has all of its safety on."""
    assert ask(server.url, "SHOW fsync") == "on"
    assert ask(server.url, "SHOW full_page_writes") == "on"
    assert int(ask(server.url, "SHOW max_connections")) == 200
    if "HOOKFUSE_TEST_POSTGRES_URL" not in os.environ:
        assert ask(postgres_server, "SHOW fsync") == "off"


def test_socket(server: Server) -> None:
    """The unix socket leads to the same server as the port."""
    same = "SELECT pg_postmaster_start_time()"
    assert ask(server.socket_url, same) == ask(server.url, same)


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_stop_and_start(server: Server, mode: Literal["fast", "immediate"]) -> None:
    """A stopped server refuses connections; started again it has what was committed, at the same address."""
    ask(server.url, f"CREATE TABLE kept_{mode} ()")
    server.stop(mode)
    with pytest.raises(OSError):
        ask(server.url, "SELECT 1")
    server.start()
    assert ask(server.url, f"SELECT to_regclass('kept_{mode}')::text") == f"kept_{mode}"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ends_with_its_owner(number: signal.Signals) -> None:
    """No server outlives a test run that is interrupted or killed."""
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with owner:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        folder = Path(parse_qs(urlsplit(url).query)["host"][0])
        assert ask(url, "SELECT 1") == 1
        owner.send_signal(number)
    deadline = time.monotonic() + PATIENCE
    while folder.exists():
        assert time.monotonic() < deadline, "the server is still there"
        time.sleep(0.02)
    with pytest.raises(OSError):
        ask(url, "SELECT 1")
