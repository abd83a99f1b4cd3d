"""The demo's own database in Postgres: gone afterwards, also if a demo could not drop it itself."""

from __future__ import annotations

import asyncio

import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.demo.database import passing_database

pytestmark = pytest.mark.anyio

LEFT = "hookfuse_demo_0123456789ab"
FOREIGN = "hookfuse_demo_of_mine"


async def databases(url: str) -> list[str]:
    """Whatever a demo could have made."""
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'hookfuse_demo_%'")
    finally:
        await connection.close()
    return [row["datname"] for row in rows]


async def run(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _unused(url: str) -> None:
    """The server needs a moment to see that someone is gone."""
    connection = await asyncpg.connect(url)
    try:
        while await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE datname = $1", LEFT):
            await asyncio.sleep(0.02)
    finally:
        await connection.close()


async def test_what_is_left_is_dropped(postgres_url: str) -> None:
    """A demo drops what killed demos left, and nothing that only looks like it, is in use, or is another demo's."""
    await run(postgres_url, f"CREATE DATABASE {LEFT}")
    await run(postgres_url, f"CREATE DATABASE {FOREIGN}")
    used = await asyncpg.connect(postgres_url.rpartition("/")[0] + f"/{LEFT}")
    try:
        async with passing_database(postgres_url) as first:
            assert LEFT in await databases(postgres_url)
            await used.close()
            await _unused(postgres_url)
            async with passing_database(postgres_url) as second:
                mine = [url.rpartition("/")[2] for url in (first, second)]
                assert sorted(await databases(postgres_url)) == sorted([FOREIGN, *mine])
        assert await databases(postgres_url) == [FOREIGN]
    finally:
        await run(postgres_url, f"DROP DATABASE {FOREIGN}")
