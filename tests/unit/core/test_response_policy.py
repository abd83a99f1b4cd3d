"""A response policy is checked data; and whatever comes, every delivery has a next step or an end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from hookfuse import Outcome
from hookfuse.core.response import ResponsePolicy, Step, judge
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.errors import InvalidInput, InvalidPolicy
from tests.unit.properties.strategies import junk, look

NOW = 1_700_000_000.0

_written = (
    st.integers(300, 599).map(str)
    | st.sampled_from(["1xx", "3xx", "4xx", "5xx", "100-599"])
    | st.tuples(st.integers(300, 599), st.integers(300, 599)).map(lambda two: f"{min(two)}-{max(two)}")
)
draws = st.floats(0, 1, exclude_max=True)


@st.composite
def policies(draw: DrawFn) -> ResponsePolicy:
    fields: dict[str, Any] = {
        name: draw(st.lists(_written, max_size=3)) for name in ("sent", "final", "retry", "ignore")
    }
    if fields["retry"]:
        fields["retries"] = draw(st.none() | st.integers(1, 50))
    try:
        return ResponsePolicy(**fields, gap=draw(st.floats(0, 86_400)))
    except InvalidPolicy:
        # Two lists spoke of one status alike; what remains of such a draw does for these tests.
        return ResponsePolicy(final=fields["final"], ignore=fields["ignore"])


schedules = st.builds(
    RetrySchedule, st.lists(st.floats(0, 30 * 86_400.0), max_size=8).map(tuple), jitter=st.floats(0, 0.5)
)
_headers = st.lists(
    st.tuples(
        st.sampled_from(["retry-after", "date"]),
        st.text(max_size=20)
        | st.sampled_from(
            ["-1", "nan", "1e309", "60", "1_0", "Tue, 14 Nov 2000 22:14:20 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"]
        ),
    ),
    max_size=2,
).map(tuple)
_answers = st.builds(
    SendResult, st.integers(-1, 1000) | st.sampled_from([200, 410, 429, 503]), st.none(), st.just(0.1), _headers
)
_troubles = st.builds(SendResult, st.none(), st.sampled_from(list(Trouble)), st.just(0.1))
results = _answers | _troubles


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"final": "400"}, "final"),
        ({"final": None}, "final"),
        ({"final": ["400"] * 51}, "final"),
        ({"final": ["400", "6xx"]}, "final[1]"),
        ({"final": ["200"]}, "final[0]"),
        ({"retry": ["2xx"]}, "retry[0]"),
        ({"ignore": ["201-204"]}, "ignore[0]"),
        ({"sent": ["204"]}, "sent[0]"),
        ({"sent": ["409"], "final": [409]}, "final"),
        ({"final": ["400-410"], "retry": ["405-415"]}, "retry"),
        ({"retry": ["5xx"], "retries": 0}, "retries"),
        ({"retry": ["5xx"], "retries": 51}, "retries"),
        ({"retry": ["5xx"], "retries": True}, "retries"),
        ({"retries": 3}, "retries"),
        ({"gap": -1}, "gap"),
        ({"gap": float("inf")}, "gap"),
        ({"gap": None}, "gap"),
        ({"finals": ["400"]}, "finals"),
        ({"_steps": []}, "_steps"),
    ],
)
def test_bad_data_names_the_field(data: dict[str, Any], field: str) -> None:
    """Data that cannot be a policy, or says two things of one status, is refused with the name of the field."""
    with pytest.raises(InvalidPolicy) as caught:
        ResponsePolicy.from_data(data)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field} must ")


@pytest.mark.parametrize("data", [None, [], "4xx", 400])
def test_no_object(data: object) -> None:
    """What is no object is refused with the fields that there are."""
    with pytest.raises(InvalidInput, match="sent, final, retry"):
        ResponsePolicy.from_data(data)


@look(200)
@given(policies())
def test_round_trip(policy: ResponsePolicy) -> None:
    """A policy survives JSON, and equal policies have equal hashes."""
    again = ResponsePolicy.from_data(json.loads(json.dumps(policy.to_data())))
    assert again == policy
    assert hash(again) == hash(policy)


@look(300)
@given(junk, st.sampled_from(["sent", "final", "retry", "retries", "gap", "ignore"]))
def test_junk(value: Any, field: str) -> None:
    """Whatever is given instead of data makes a policy or an InvalidInput, never another error."""
    for data in (value, {field: value}, {field: [value]}):
        try:
            ResponsePolicy.from_data(data)
        except InvalidInput as error:
            assert str(error)


@look(1000)
@given(results, st.integers(0, 60), schedules, policies(), draws)
def test_every_verdict_is_an_end_or_a_next_step(
    result: SendResult, made: int, schedule: RetrySchedule, policy: ResponsePolicy, draw: float
) -> None:
    """A delay comes with RETRY and only with it, is never negative, and obeys a readable Retry-After."""
    verdict = judge(result, made, schedule, policy, NOW, draw)
    assert (verdict.delay_ms is not None) == (verdict.step is Step.RETRY)
    assert verdict.delay_ms is None or verdict.delay_ms >= 0
    assert verdict.spent or verdict.step is Step.RETRY
    assert verdict.reason
    if verdict.step is Step.RETRY and verdict.outcome.retry_after is not None:
        assert verdict.delay_ms is not None
        assert verdict.delay_ms >= verdict.outcome.retry_after * 1000
    if verdict.disable or verdict.flag or not verdict.spent:
        assert verdict.outcome == Outcome.IGNORED
    if result.succeeded:
        assert verdict.step is Step.SENT


@look(300)
@given(st.lists(results, min_size=1, max_size=6), schedules, policies(), draws)
def test_attempts_are_bounded(
    answers: Sequence[SendResult], schedule: RetrySchedule, policy: ResponsePolicy, draw: float
) -> None:
    """Whatever an endpoint answers, a delivery spends no more attempts than its schedule or its policy has."""
    made = 0
    for result in islice(cycle(answers), 400):
        verdict = judge(result, made, schedule, policy, NOW, draw)
        made += verdict.spent
        if verdict.step is not Step.RETRY:
            break
    assert made <= max(schedule.attempts, (policy.retries or 0) + 1)
