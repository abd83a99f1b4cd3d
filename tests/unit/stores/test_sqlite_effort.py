"""The claim on SQLite reads through indexes only, whatever waits, and plans each statement once."""

from __future__ import annotations

import re

import apsw
import pytest

from hookfuse.stores.sql import migrations, statements
from hookfuse.stores.sqlite.connections import connected

PACKAGE = "hookfuse.stores.sqlite"

# What a worker's round runs: the statements of claiming, settling and waking.
ROUND = (
    "ring_fresh",
    "ring_late",
    "claim_fresh_lanes",
    "claim_late_lanes",
    "claim_heads",
    "claim_delivery",
    "claimed_fresh",
    "claimed_late",
    "next_fresh",
    "next_late",
    "settle_ended",
    "settle_pending",
    "settle_lane",
    "block_lane",
    "unblock_lane",
    "lost_leases",
)


@pytest.fixture(scope="module", params=["analyzed", "never analyzed"])
def database(request: pytest.FixtureRequest) -> apsw.Connection:
    connection = connected(":memory:")
    for migration in migrations(PACKAGE):
        connection.execute(migration.text)
    with connection:
        connection.executemany(
            "INSERT INTO lanes (endpoint_id, app_id, cap, fresh_ms) VALUES (?, 'app', 1, ?)",
            ((f"ep_{n}", n) for n in range(2_000)),
        )
        connection.executemany(
            "INSERT INTO deliveries (message_id, endpoint_id, app_id, queue, place, first_ms, created_ms)"
            " VALUES (?, ?, 'app', ?, ?, 0, 0)",
            ((f"msg_{n}", f"ep_{n % 2_000}", n % 3, n) for n in range(50_000)),
        )
    if request.param == "analyzed":
        connection.execute("ANALYZE")
    return connection


@pytest.mark.parametrize("name", ROUND)
def test_no_table_is_read_from_end_to_end(database: apsw.Connection, name: str) -> None:
    """Every step of a plan is a search, or a walk along a partial index that holds only what is asked for."""
    # Plans do not depend on values here, so any will do.
    statement = re.sub(r"\?\d*|:\w+", "1", statements(PACKAGE)[name])
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}")]
    steps = [step for step in plan if step.startswith(("SCAN", "SEARCH"))]
    assert steps
    for step in steps:
        assert step.startswith("SEARCH") or "lanes_busy" in step or "COVERING INDEX lanes_" in step, plan


@pytest.mark.parametrize("name", ROUND)
def test_new_values_need_no_new_plan(database: apsw.Connection, name: str) -> None:
    """A statement that was run before runs with other values without being planned again."""
    statement = statements(PACKAGE)[name]
    planned: list[int] = []

    def planning(operation: int, *_: str | None) -> int:
        planned.append(operation)
        return apsw.SQLITE_OK

    # SQLite asks for leave while it plans, and never while it runs.
    database.authorizer = planning
    try:
        database.execute(statement, _values(statement, 1)).fetchall()
        assert planned
        planned.clear()
        database.execute(statement, _values(statement, 2)).fetchall()
        assert planned == []
    finally:
        database.authorizer = None


def _values(statement: str, value: int) -> tuple[int, ...]:
    numbers = [int(number) for number in re.findall(r"\?(\d+)", statement)]
    return (value,) * (max(numbers) if numbers else statement.count("?"))
