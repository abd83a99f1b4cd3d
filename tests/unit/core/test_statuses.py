"""Statuses as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.statuses import Span
from hookfuse.errors import InvalidPolicy
from tests.unit.properties.strategies import junk, look


@pytest.mark.parametrize(
    ("written", "span", "text"),
    [
        ("404", (404, 404), "404"),
        (404, (404, 404), "404"),
        ("4xx", (400, 499), "4xx"),
        ("400-499", (400, 499), "4xx"),
        ("500-504", (500, 504), "500-504"),
        ("502-502", (502, 502), "502"),
        ("100-599", (100, 599), "100-599"),
    ],
)
def test_forms(written: str | int, span: tuple[int, int], text: str) -> None:
    """A status, a hundred and a range are read, and written back in their shortest form."""
    found = Span.parse("final", written)
    assert found == span
    assert str(found) == text


@pytest.mark.parametrize(
    "written",
    [
        *("", "99", "600", "6xx", "0xx", "4XX", "4x", "40x", "500-", "-500", "504-500", " 404", "404\n", "٤٠٤", "4e2"),
        *(True, None, 404.0, 99, 600, -404, ["404"]),
    ],
)
def test_refused(written: object) -> None:
    """Anything else is refused with the field's name."""
    with pytest.raises(InvalidPolicy) as caught:
        Span.parse("final[0]", written)
    assert caught.value.field == "final[0]"


@look(200)
@given(st.integers(100, 599), st.integers(100, 599))
def test_round_trip(one: int, two: int) -> None:
    """A written span reads as itself, and covers as many statuses as it is wide."""
    span = Span(min(one, two), max(one, two))
    assert Span.parse("final", str(span)) == span
    assert sum(span.covers(status) for status in range(1000)) == span.width


@look(200)
@given(junk)
def test_junk(value: Any) -> None:
    """Junk is refused as a policy, never with another error."""
    try:
        Span.parse("final", value)
    except InvalidPolicy as error:
        assert str(error)
