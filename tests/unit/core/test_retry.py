"""When a failed attempt is made again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.retry import RetrySchedule
from hookfuse.errors import InvalidInput, InvalidPolicy
from tests.unit.properties.strategies import junk, look

MIDDLE = 0.5
MONTH = 30 * 86_400.0

schedules = st.builds(
    RetrySchedule, st.lists(st.floats(0, MONTH), max_size=50).map(tuple), jitter=st.floats(0, 0.5, allow_nan=False)
)
draws = st.floats(0, 1, exclude_max=True)


def test_the_default() -> None:
    """Five delays make six attempts, and then there is no more."""
    schedule = RetrySchedule()
    waits = [schedule.delay_ms(made, MIDDLE) for made in range(1, 8)]
    assert waits == [30_000, 300_000, 1_800_000, 7_200_000, 86_400_000, None, None]
    assert schedule.attempts == 6


def test_jitter_reaches_both_edges() -> None:
    """The draw moves a delay by up to ten percent either way."""
    schedule = RetrySchedule()
    assert schedule.delay_ms(1, 0.0) == 27_000
    assert schedule.delay_ms(1, 1.0) == 33_000


def test_one_attempt_only() -> None:
    """A schedule without delays is exhausted by the first attempt."""
    assert RetrySchedule(()).delay_ms(1, MIDDLE) is None


def test_a_delay_follows_an_attempt() -> None:
    """Asking for the delay after no attempt is misuse."""
    with pytest.raises(InvalidInput, match="at least one attempt"):
        RetrySchedule().delay_ms(0, MIDDLE)


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"delays": "30"}, "delays"),
        ({"delays": None}, "delays"),
        ({"delays": [1] * 51}, "delays"),
        ({"delays": [30, -1]}, "delays[1]"),
        ({"delays": [30, float("nan")]}, "delays[1]"),
        ({"delays": [MONTH + 1]}, "delays[0]"),
        ({"delays": [True]}, "delays[0]"),
        ({"delays": [10**400]}, "delays[0]"),
        ({"jitter": 0.6}, "jitter"),
        ({"jitter": -0.1}, "jitter"),
        ({"jitter": "0.1"}, "jitter"),
        ({"retries": 3}, "retries"),
    ],
)
def test_bad_data_names_the_field(data: dict[str, Any], field: str) -> None:
    """Data that cannot be a schedule is refused with the name of the field."""
    with pytest.raises(InvalidPolicy) as caught:
        RetrySchedule.from_data(data)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field} must ")


def test_timedeltas() -> None:
    """Delays may be timedeltas."""
    assert RetrySchedule((timedelta(minutes=1),)) == RetrySchedule((60.0,))  # type: ignore[arg-type]


@look(200)
@given(schedules)
def test_round_trip(schedule: RetrySchedule) -> None:
    """A schedule survives JSON, and equal schedules have equal hashes."""
    again = RetrySchedule.from_data(json.loads(json.dumps(schedule.to_data())))
    assert again == schedule
    assert hash(again) == hash(schedule)


@look(300)
@given(schedules, st.integers(1, 60), draws)
def test_delays_stay_near_their_schedule(schedule: RetrySchedule, made: int, draw: float) -> None:
    """A delay is never negative, within the jitter of what was asked for, and absent exactly when exhausted."""
    delay_ms = schedule.delay_ms(made, draw)
    assert (delay_ms is None) == (made >= schedule.attempts)
    if delay_ms is not None:
        asked_ms = schedule.delays[made - 1] * 1000
        assert delay_ms >= 0
        assert abs(delay_ms - asked_ms) <= asked_ms * schedule.jitter + 2


@look(200)
@given(st.lists(st.floats(0, MONTH), min_size=2, max_size=20), draws)
def test_rising_delays_rise(delays: list[float], draw: float) -> None:
    """With the same draw, a schedule that rises gives waits that never fall."""
    schedule = RetrySchedule(tuple(sorted(delays)))
    waits = [schedule.delay_ms(made, draw) or 0 for made in range(1, schedule.attempts)]
    assert waits == sorted(waits)


@look(300)
@given(junk)
def test_junk(data: Any) -> None:
    """Whatever is given instead of data makes a schedule or an InvalidInput, never another error."""
    for given_data in (data, {"delays": data}, {"delays": [data]}, {"jitter": data}):
        try:
            RetrySchedule.from_data(given_data)
        except InvalidInput as error:
            assert str(error)
