"""A site for each test, on every store; the seed of its draws is printed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.delivery.databases import Database, PostgresDatabase, SqliteDatabase
from tests.faults.delivery.site import Site
from tests.faults.delivery.sizes import Sizes, chosen, seed


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def sizes() -> Sizes:
    return chosen()


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path)
    shared: Database = request.getfixturevalue("postgres_database")
    return shared


@pytest.fixture
def postgres_database(postgres_url: str) -> PostgresDatabase:
    return PostgresDatabase(postgres_url)


@pytest.fixture
async def site(tmp_path: Path, database: Database, sizes: Sizes) -> AsyncIterator[Site]:
    made = Site(tmp_path, database, sizes, seed())
    print(f"HOOKFUSE_SEED={made.seed}")  # noqa: T201
    with made.receivers:
        yield made
        await made.close()
        print(made.said())  # noqa: T201
