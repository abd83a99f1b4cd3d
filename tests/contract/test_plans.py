"""Every list is read from an index: what it costs depends on the page, not on the table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import apsw
import asyncpg  # type: ignore[import-untyped]
import pytest

from hookfuse.stores.postgres import PostgresStore
from hookfuse.stores.postgres.queries import SQL as POSTGRES
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.stores.sqlite.connections import connected
from hookfuse.stores.sqlite.queries import SQL as SQLITE

pytestmark = pytest.mark.anyio

LISTS = sorted(name for name in SQLITE if name.endswith(("_page", "_page_back")))
# What a statement itself has made, and indexes that hold only the few rows that are marked by something.
HARMLESS = re.compile(
    r"VIRTUAL TABLE|SCAN p|SCAN \(|SCAN (sick|slots|off|CONSTANT)"
    r"|INDEX (endpoints_marked|lanes_failing|breaker_heads_unhealthy|notices_due)"
)
# What waits is sorted by message, of one message there are few attempts, distinct messages are counted, and whoever
# lists the sick, or those that nobody stopped, sorts them anyway.
SORTED = ("open_deliveries", "attempts_of_message", "delivery_counts", "sick_endpoints", "unstopped")
COUNTS = [
    "recent",
    "sick_endpoints",
    "other_endpoints",
    "other_endpoints_back",
    "delivery_counts",
    "attempt_counts",
    "waiting",
    "unstopped",
    "notices_waiting",
    "key_by_hash",
    "payloads",
    "messages_by_id",
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def database(tmp_path: Path) -> apsw.Connection:
    path = tmp_path / "hookfuse.db"
    store = SqliteStore(path)
    await store.open()
    await store.close()
    return connected(path)


@pytest.mark.parametrize("name", LISTS + COUNTS)
async def test_sqlite_reads_ranges(database: apsw.Connection, name: str) -> None:
    """On SQLite no list or count scans a table, and no page of a long list is sorted."""
    named = re.findall(r":([a-z]\w*)", SQLITE[name])
    values: Any = dict.fromkeys(named) if named else (None,) * SQLITE[name].count("?")
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {SQLITE[name]}", values)]
    scans = [step for step in plan if step.startswith("SCAN") and not HARMLESS.search(step)]
    assert scans == [], plan
    if any("TEMP B-TREE" in step and "LAST TERM" not in step for step in plan):
        assert name.startswith(SORTED), plan


PLANNED: dict[str, tuple[Any, ...]] = {
    "endpoints_page": ("", "~", 50, "app_1"),
    "messages_page": (-1, "", 1 << 62, "~", 50, "app_1", None, None),
    "missing_page": (-1, "", 1 << 62, "~", 50, "app_1", "ep_1"),
    "attempts_of_endpoint_page": (-1, "", 1 << 62, "~", 50, "app_1", "ep_1", None, None, None, None),
    "attempts_of_message_page": (-1, "", 1 << 62, "~", 50, "app_1", None, None, None, None, None, "msg_0000010"),
    "attempted_page": (-1, "", 1 << 62, "~", 50, "app_1", "ep_1", None, None, None),
    "open_deliveries_page": ("", "", "~", "~", 50, "app_1", None, None, None, None, ["pending"]),
    "lost_deliveries_page": ("", "", "~", "~", 50, "app_1", None, None, None, None, ["failed"]),
    "all_deliveries_page": ("", "", "~", "~", 50, "app_1", None, None, None, None, None),
    "delivery_counts": ("app_1", "ep_1", 0, 1 << 60),
    "attempt_counts": ("ep_1", 0, 1 << 60),
    "waiting": (["ep_1", "ep_2"],),
    "recent": (["ep_1", "ep_2"], 10_000, 90),
    "sick_endpoints": (["ep_1", "ep_2"], None, ""),
    "other_endpoints": ("", "~", 50, ["ep_1"], None, ""),
    "transitions_page": (-1, "", 1 << 62, "~", 50),
    "transitions_of_application_page": (-1, "", 1 << 62, "~", 50, "app_1"),
    "transitions_of_breaker_page": (-1, "", 1 << 62, "~", 50, "app_1/ep_1"),
    "notices_of_application_page": ("", "~", 50, None, "app_1"),
    "earlier_notices": ("breaker app_1/ep_1", "chat"),
    "claim_notices": ("chat", 8, 1000, None, None),
    "notices_waiting": (),
}

_FILL = """
INSERT INTO hookfuse.applications (id, name, created_ms, updated_ms)
SELECT 'app_' || n, 'x', 0, 0 FROM generate_series(1, 200) AS n;
INSERT INTO hookfuse.endpoints (id, app_id, url, cap, timeout_ms, created_ms, updated_ms)
SELECT 'ep_' || n, 'app_' || n, 'https://example.com/', 1, 1, 0, 0 FROM generate_series(1, 200) AS n;
INSERT INTO hookfuse.messages (id, app_id, event_type, created_ms, payload)
SELECT 'msg_' || lpad(n::text, 7, '0'), 'app_' || n % 200, 'a', n, '{}' FROM generate_series(1, 40000) AS n;
INSERT INTO hookfuse.deliveries (message_id, endpoint_id, app_id, state, queue, place, first_ms, created_ms)
SELECT 'msg_' || lpad(n::text, 7, '0'), 'ep_' || n % 200, 'app_' || n % 200,
       CASE WHEN n % 1000 < 200 THEN 'failed' WHEN n % 1000 < 400 THEN 'pending' ELSE 'sent' END,
       CASE WHEN n % 1000 BETWEEN 200 AND 399 THEN 0 END, n, n, n
FROM generate_series(1, 40000) AS n;
INSERT INTO hookfuse.attempts (message_id, id, endpoint_id, app_id, number, at_ms, status, latency_ms)
SELECT 'msg_' || lpad(n::text, 7, '0'), 'atmpt_' || lpad(n::text, 7, '0'), 'ep_' || n % 200, 'app_' || n % 200, 1, n,
       200, 1
FROM generate_series(1, 40000) AS n;
INSERT INTO hookfuse.transitions
SELECT 'app_' || n % 200 || '/ep_' || n % 200, n, 'app_' || n % 200, 'ep_' || n % 200, 'closed', 'open', 'none',
       'streak', '{}', 'breaker', n
FROM generate_series(1, 40000) AS n;
INSERT INTO hookfuse.notices (
    id, event, channel, app_id, key, generation, thread, facts, state, from_ms, due_ms, at_ms, created_ms
)
SELECT 'ntc_' || lpad(n::text, 7, '0'), 'breaker.opened', 'chat', 'app_' || n % 200, 'app_/ep_' || n, n,
       'breaker app_' || n % 200 || '/ep_' || n % 200, '{}', CASE WHEN n % 1000 = 0 THEN 'pending' ELSE 'sent' END, n,
       CASE WHEN n % 1000 = 0 THEN n END, n, n
FROM generate_series(1, 40000) AS n;
ANALYZE;
"""


async def test_postgres_reads_ranges(postgres_url: str) -> None:
    """On Postgres no list or count reads a table with messages, deliveries or attempts from end to end."""
    store = PostgresStore(postgres_url)
    await store.open()
    await store.close()
    connection = await asyncpg.connect(postgres_url)
    try:
        await connection.execute(_FILL)
        await connection.execute("SET jit = off; SET plan_cache_mode = force_custom_plan")
        for name, values in PLANNED.items():
            for statement in (name, f"{name}_back"):
                if statement in POSTGRES:
                    text = f"EXPLAIN (ANALYZE, FORMAT JSON) {POSTGRES[statement]}"
                    plan = json.loads(await connection.fetchval(text, *values))[0]["Plan"]
                    assert _most_rows(plan) <= 2_000, (statement, json.dumps(plan, indent=1))
    finally:
        await connection.close()


def _most_rows(node: dict[str, Any]) -> float:
    """The most rows that one step of a plan looked at, all its loops together."""
    looked: float = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    return max([looked, *(_most_rows(each) for each in node.get("Plans", ()))])
