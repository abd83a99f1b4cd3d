"""Arrays that are sent as texts are those that were meant, whatever is in them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import asyncpg  # type: ignore[import-untyped]
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hookfuse.stores.postgres.arrays import numbers, texts

AWKWARD = ["", "NULL", "null", " ", "a,b", "{}", '"', '","', '""', "\\", '\\"', "\n", "é", "\U0001f600", "a b"]
TEXTS = st.one_of(
    st.none(),
    st.sampled_from(AWKWARD),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
)
NUMBERS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
MANY = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _read(url: str, kind: str, arrays: Sequence[str]) -> list[list[object]]:
    async def reading() -> list[list[object]]:
        connection = await asyncpg.connect(url)
        try:
            return [list(await connection.fetchval(f"SELECT $1::text::{kind}[]", each)) for each in arrays]
        finally:
            await connection.close()

    return asyncio.run(reading())


@MANY
@given(wanted=st.lists(st.lists(TEXTS, max_size=6), max_size=20))
def test_texts_come_back(postgres_url: str, wanted: list[list[str | None]]) -> None:
    """Postgres reads an array of texts as it was meant, with NULLs, quotes, commas and backslashes in it."""
    assert _read(postgres_url, "text", list(map(texts, wanted))) == wanted


def test_awkward_texts_come_back(postgres_url: str) -> None:
    """A text that looks like a part of an array is one element, alone and among others."""
    wanted = [each for one in AWKWARD for each in ([one], [one, one], ["a", one, "b"], [None, one])]
    assert _read(postgres_url, "text", list(map(texts, wanted))) == wanted


@MANY
@given(wanted=st.lists(st.lists(NUMBERS, max_size=6), max_size=20))
def test_numbers_come_back(postgres_url: str, wanted: list[list[int | None]]) -> None:
    """Postgres reads an array of numbers as it was meant, up to the ends of their range."""
    assert _read(postgres_url, "bigint", list(map(numbers, wanted))) == wanted
