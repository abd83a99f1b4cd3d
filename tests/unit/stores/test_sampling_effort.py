"""A sample reads the slots that it looks back at, and nothing of the history behind them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.stores.postgres import PostgresStore
from hookfuse.stores.postgres.queries import SQL as POSTGRES
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.stores.sqlite.queries import SQL as SQLITE

pytestmark = pytest.mark.anyio

RECENT = 100
FILL = f"""
INSERT INTO hookfuse.tallies
SELECT hookfuse.now_ms() - slot * 10000, 'ep_' || e, 1, 0, 0, 1
FROM generate_series(0, 299) AS slot, generate_series(1, {RECENT}) AS e;
ANALYZE hookfuse.tallies;
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_sqlite_reads_slots(tmp_path: Path) -> None:
    """On SQLite a sample searches the slots by their beginning."""
    path = tmp_path / "hookfuse.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    db = apsw.Connection(str(path))
    values = {"now": 0, "back": 0, "others": "{}", "furthest": 0, "backs": "{}"}
    for name in ("seen", "seen_of"):
        plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {SQLITE[name]}", values)]
        assert any(step.startswith("SEARCH t USING PRIMARY KEY (slot_ms>") for step in plan), plan


async def test_postgres_reads_slots(postgres_url: str) -> None:
    """On Postgres a sample of the last slot reads that slot's rows, of three hundred slots."""
    store = PostgresStore(postgres_url)
    await store.open()
    await store.close()
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(FILL)
        text = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {POSTGRES['seen']}", 5_000, [], [], 5_000)
    finally:
        await connection.close()
    (scan,) = [node for node in _nodes(json.loads(text)[0]["Plan"]) if node.get("Relation Name") == "tallies"]
    assert scan["Node Type"] != "Seq Scan"
    assert scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0) == RECENT


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for each in plan.get("Plans", ()):
        yield from _nodes(each)
