"""A site for each test, on every store; what it drew from is printed when the test fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hookfuse.stores.postgres import PostgresStore
from tests.faults.delivery.databases import Database, PostgresDatabase, SqliteDatabase
from tests.faults.delivery.site import Site
from tests.faults.delivery.sizes import Sizes, chosen, seed
from tests.servers.postgres import empty_database


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def sizes() -> Sizes:
    return chosen()


@pytest.fixture(scope="session")
def tells_time(postgres_server: str) -> bool:
    """Whether claims of the Postgres store come with the database's time, without which no worker runs on it."""

    async def claim(url: str) -> bool:
        store = PostgresStore(url)
        await store.open()
        try:
            return (await store.claim(1, lease_ms=1000, failing_limit=1)).now_ms > 0
        except TypeError:
            return False
        finally:
            await store.close()

    with empty_database(postgres_server) as url:
        return asyncio.run(claim(url))


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path)
    return request.getfixturevalue("postgres_database")


@pytest.fixture
def postgres_database(postgres_url: str, tells_time: bool) -> PostgresDatabase:
    if not tells_time:
        pytest.skip("the Postgres store does not yet tell the time with its claims")
    return PostgresDatabase(postgres_url)


@pytest.fixture
async def site(tmp_path: Path, database: Database, sizes: Sizes) -> AsyncIterator[Site]:
    made = Site(tmp_path, database, sizes, seed())
    print(f"HOOKFUSE_SEED={made.seed}")  # noqa: T201
    with made.receivers:
        yield made
        await made.close()
        print(made.said())  # noqa: T201
