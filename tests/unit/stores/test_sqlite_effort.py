"""The claim on SQLite reads through indexes only, whatever waits, and plans each statement once."""

from __future__ import annotations

import re

import apsw
import pytest

from hookfuse.stores.sql import migrations, statements
from hookfuse.stores.sqlite.bulk import SIZES, Many
from hookfuse.stores.sqlite.connections import connected

PACKAGE = "hookfuse.stores.sqlite"

# What runs all the time: the statements of accepting, claiming, settling and waking, as they are with many rows.
ROUND = (
    "accept_known_keys",
    "accept_known_uids",
    "ring_fresh",
    "ring_late",
    "next_wakes",
    "claim_fresh_lanes",
    "claim_late_lanes",
    "fresh_turns",
    "late_turns",
    "fresh_lanes_of",
    "late_lanes_of",
    "claim_heads",
    "claim_messages",
    "claim_deliveries",
    "claimed_fresh",
    "claimed_late",
    "settle_held",
    "settle_ended",
    "settle_pending",
    "ring_returned",
    "settle_lanes",
    "block_lanes",
    "unblock_lanes",
    "lost_leases",
    "leases_of_tokens",
    "count_deaths",
    "retry",
    "cancel",
)
# What a statement itself has made, and partial indexes that hold only what is asked for.
FEW = (
    "lanes_busy",
    "COVERING INDEX lanes_",
    "VALUES CLAUSE",
    "CONSTANT ROW",
    "SCAN v",
    "SCAN r",
    "SCAN walk",
    "SCAN (",
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
    statement = re.sub(r"\?\d*|:\w+", "1", _statement(name))
    plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}")]
    steps = [step for step in plan if step.startswith(("SCAN", "SEARCH"))]
    assert steps
    for step in steps:
        assert step.startswith("SEARCH") or any(few in step for few in FEW), plan


@pytest.mark.parametrize("name", ROUND)
def test_new_values_need_no_new_plan(database: apsw.Connection, name: str) -> None:
    """A statement that was run before runs with other values without being planned again."""
    statement = _statement(name)
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


def _statement(name: str) -> str:
    text = statements(PACKAGE)[name]
    return Many(text).texts[SIZES[-1]] if "VALUES" in text else text


def _values(statement: str, value: int) -> tuple[int, ...]:
    numbers = {int(number) for number in re.findall(r"\?(\d+)", statement)}
    return (value,) * (len(numbers) + len(re.findall(r"\?(?!\d)", statement)))
