"""A statement for many rows is what the same statement for each of them is."""

from __future__ import annotations

from typing import Any

import apsw
import pytest

from hookfuse.stores.sqlite.bulk import SIZES, Many

ADD = Many("INSERT OR FAIL INTO pairs SELECT * FROM (VALUES (?, ?)) WHERE column1 IS NOT NULL")
CHANGE = Many("UPDATE OR FAIL pairs SET value = ?1 || v.column2 FROM (VALUES (?, ?)) AS v WHERE name = v.column1")
FIND = Many(
    "SELECT json_group_array(json_array(v.column1, p.value))"
    " FROM (VALUES (?)) AS v JOIN pairs AS p ON p.name = v.column1"
)


@pytest.fixture
def database() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE TABLE pairs (name INTEGER PRIMARY KEY, value ANY) STRICT")
    return connection


@pytest.mark.parametrize("count", sorted({0, 1, *(size + step for size in SIZES for step in (-1, 0, 1)), 1_500}))
def test_any_number_of_rows(database: apsw.Connection, count: int) -> None:
    """However many rows there are, all of them are written, changed and found, and none that fills up a statement."""
    rows: list[tuple[Any, ...]] = [(number, f"v{number}") for number in range(count)]
    assert ADD.run(database, rows) == count
    assert CHANGE.run(database, rows, "new ") == count
    asked = [(number,) for number in range(count + 5)]
    assert FIND.gather(database, asked) == [[number, f"new v{number}"] for number in range(count)]
    assert database.execute("SELECT count(*) FROM pairs").get == count


def test_a_null_in_another_place_is_a_value(database: apsw.Connection) -> None:
    """A row is one to fill up with only if what names it is NULL."""
    ADD.run(database, [(1, None), (2, b"\x00\xff"), (3, "")])
    assert database.execute("SELECT * FROM pairs ORDER BY name").fetchall() == [(1, None), (2, b"\x00\xff"), (3, "")]


def test_a_row_that_fails_says_so(database: apsw.Connection) -> None:
    """What the database refuses is raised, for the job to be undone."""
    with pytest.raises(apsw.ConstraintError):
        ADD.run(database, [(1, "a"), (2, "b"), (1, "c")])


@pytest.mark.parametrize("statement", ["SELECT 1", "UPDATE t SET a = 1 FROM (VALUES (?)) AS v WHERE b = ?1"])
def test_a_statement_that_takes_no_rows(statement: str) -> None:
    """A statement without rows, or with other values behind them, is none of these: that is found at import."""
    with pytest.raises(ValueError, match="VALUES"):
        Many(statement)
