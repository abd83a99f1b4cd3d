"""What plain retrying would have sent in vain."""

from __future__ import annotations

import pytest

from hookfuse.demo.doomed import Period, doomed, periods, within

DELAYS = (1.0, 2.0, 4.0)
BROKEN = [Period(10, 15)]


@pytest.mark.parametrize(
    ("accepted_at", "expected"),
    [
        (9.9, []),
        (10.0, [10, 11, 13]),
        (14.5, [14.5]),
        (15.0, []),
    ],
    ids=["before it broke", "as it broke", "near its end", "as it was healed"],
)
def test_sent_until_it_would_have_succeeded(accepted_at: float, expected: list[float]) -> None:
    """A message is sent by its schedule until the first request that would have met a receiver in order."""
    assert doomed([accepted_at], DELAYS, BROKEN, until=100) == expected


def test_sent_until_the_schedule_is_used_up() -> None:
    """A receiver that stays broken costs each message one request more than the schedule has delays."""
    assert doomed([0.0], DELAYS, [Period(0, 1000)], until=1000) == [0, 1, 3, 7]


def test_nothing_of_the_future() -> None:
    """Requests that plain retrying would make later than now are not counted."""
    assert doomed([0.0], DELAYS, [Period(0, 1000)], until=3) == [0, 1]


def test_a_success_ends_it_for_good() -> None:
    """A receiver that breaks once more does not get again what it has taken between."""
    assert doomed([0.0], DELAYS, [Period(0, 0.5), Period(2, 9)], until=100) == [0]


def test_within() -> None:
    """A period has its beginning and not its end."""
    assert within([9, 10, 14, 15], BROKEN) == [10, 14]


def test_periods() -> None:
    """Changes to the same thing are no changes, and what lasts is cut off."""
    changes = [(1.0, False), (2.0, True), (3.0, True), (4.0, False), (6.0, True)]
    assert periods(changes, until=9) == [Period(2, 4), Period(6, 9)]
    assert periods([], until=9) == []
