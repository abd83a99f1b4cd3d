"""A policy is data: whatever is valid survives JSON, whatever is not is refused with a sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hookfuse import Count, HookfuseError, Latency, Policy, Rate, Slow, Streak, profiles
from hookfuse.core.rules import RULES
from hookfuse.errors import InvalidInput, InvalidPolicy
from tests.unit.properties.strategies import HUGE, junk, look, policies

FIELDS = tuple(each.name for each in fields(Policy) if each.init)


def make(field: str) -> Callable[[Any], object]:
    return lambda value: Policy(**{field: value})


WHOLE: dict[str, Callable[[Any], object]] = {
    "probes": make("probes"),
    "close_after": make("close_after"),
    "disable_after": make("disable_after"),
    "Streak.n": lambda value: Streak(value),
    "Count.n": lambda value: Count(value),
    "Rate.min_calls": lambda value: Rate(0.5, min_calls=value),
    "Latency.min_calls": lambda value: Latency(1, min_calls=value),
    "Slow.min_calls": lambda value: Slow(0.5, 1, min_calls=value),
}
REAL: dict[str, Callable[[Any], object]] = {
    "cool_off_factor": make("cool_off_factor"),
    "jitter": make("jitter"),
    "close_rate": make("close_rate"),
    "Rate.share": lambda value: Rate(value),
    "Slow.share": lambda value: Slow(value, 1),
}
DURATION: dict[str, Callable[[Any], object]] = {
    **{
        name: make(name)
        for name in (
            "window",
            "cool_off",
            "cool_off_max",
            "probe_lease",
            "ramp",
            "reenable_after",
            "forget_after",
            "sample_every",
        )
    },
    "Latency.mean": lambda value: Latency(value),
    "Slow.over": lambda value: Slow(0.5, value),
}
NUMBERS = {**WHOLE, **REAL, **DURATION}
MAY_BE_NONE = {"window", "cool_off_max", "reenable_after", "disable_after", "close_rate"}
MAY_BE_ZERO = {"ramp", "jitter"}

NEVER: tuple[Any, ...] = (
    *HUGE,
    -1,
    -0.5,
    -1e-9,
    True,
    False,
    "5",
    "",
    "nan",
    b"5",
    [],
    [1],
    {},
    (),
    1j,
    Decimal(5),
    len,
    ...,
)
NO_DURATION = (timedelta(microseconds=-1), timedelta.min, timedelta.max)


def bad_values(field: str) -> st.SearchStrategy[Any]:
    values = [*NEVER]
    if field not in MAY_BE_NONE:
        values.append(None)
    if field not in MAY_BE_ZERO:
        values += [0, 0.0, -0.0]
    if field in DURATION:
        values += NO_DURATION
    else:
        values.append(timedelta(seconds=1))
    if field in WHOLE:
        values += [1.0, 2.5]
    return st.sampled_from(values) | st.floats(max_value=-1e-300) | st.integers(max_value=-1)


@look(100)
@given(policy=policies())
def test_a_policy_survives_json(policy: Policy) -> None:
    """Every valid policy comes back from JSON equal, with the same hash and the same derived numbers."""
    for back in (
        Policy.from_json(policy.to_json()),
        Policy.from_json(policy.to_json().encode()),
        Policy.from_dict(policy.to_dict()),
        Policy.from_dict(json.loads(json.dumps(policy.to_dict()))),
    ):
        assert back == policy
        assert hash(back) == hash(policy)
        assert all(getattr(back, each.name) == getattr(policy, each.name) for each in fields(Policy))
        assert back.to_json() == policy.to_json()


@look(40)
@given(policy=policies(), other=policies())
def test_policies_compare_by_their_numbers(policy: Policy, other: Policy) -> None:
    """Two policies are equal exactly when their data are."""
    assert (policy == other) == (policy.to_dict() == other.to_dict())


@pytest.mark.parametrize("field", NUMBERS)
def test_a_bad_number_is_refused_by_name_and_bound(field: str) -> None:
    """A number out of its bounds raises InvalidPolicy, whose message names the field and a bound."""

    @look(40)
    @given(value=bad_values(field))
    @example(value=10**400)
    def refused(value: Any) -> None:
        with pytest.raises(InvalidPolicy) as caught:
            NUMBERS[field](value)
        assert caught.value.field == field
        assert str(caught.value).startswith(f"{field} must ")
        assert re.search(r"\d", caught.value.must)

    refused()


@look(100)
@given(field=st.sampled_from(FIELDS), value=junk)
def test_any_value_in_any_field_is_taken_or_refused(field: str, value: Any) -> None:
    """Junk in a field gives a policy or a readable InvalidPolicy, and nothing else."""
    try:
        policy = Policy(**{field: value})
    except InvalidPolicy as error:
        assert str(error)
    else:
        assert Policy.from_json(policy.to_json()) == policy


_leaves = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from([10**400, 1, 5, 60])
)
_json = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_rule_fields = st.sampled_from(["n", "success_clears", "share", "min_calls", "mean", "over", "name"])
_rule_data = st.builds(
    lambda rule, rest: {**rest, "rule": rule},
    st.sampled_from([*RULES]) | _json,
    st.dictionaries(_rule_fields, _json, max_size=3),
)
_policy_data = st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), _json, max_size=4)
_trip_data = _rule_data | st.lists(_rule_data, max_size=3) | _json


@look(250)
@given(data=_policy_data | _json, trip=st.none() | _trip_data)
@example(data={}, trip={"rule": []})
@example(data={}, trip=[{"rule": {}}])
@example(data=[], trip=None)
def test_any_json_is_a_policy_or_refused(data: Any, trip: Any) -> None:
    """`from_dict` of arbitrary JSON gives a policy or raises one of our errors with a message."""
    if isinstance(data, dict) and trip is not None:
        data = {**data, "trip": trip}
    try:
        policy = Policy.from_dict(data)
    except HookfuseError as error:
        assert str(error)
    else:
        assert Policy.from_dict(policy.to_dict()) == policy


@look(100)
@given(text=st.text(max_size=30) | st.binary(max_size=30) | _policy_data.map(json.dumps) | junk)
@example(text="[" * 2_000)
@example(text="NaN")
def test_any_text_is_a_policy_or_refused(text: Any) -> None:
    """`from_json` of anything at all gives a policy or raises one of our errors with a message."""
    try:
        Policy.from_json(text)
    except HookfuseError as error:
        assert str(error)


def test_all_time_can_be_sampled() -> None:
    """A window of all time is longer than any sampling interval."""
    assert Policy(window=None, evaluate="sampled").window is None


@look(100)
@given(data=st.data(), name=st.sampled_from(profiles.__all__))
def test_a_profile_takes_or_refuses_any_number(data: st.DataObject, name: str) -> None:
    """A profile called with junk gives a policy or a readable error of ours."""
    profile = getattr(profiles, name)
    argument = data.draw(st.sampled_from(sorted(profile.__kwdefaults__)))
    try:
        policy = profile(**{argument: data.draw(junk)})
    except InvalidInput as error:
        assert str(error)
    else:
        assert isinstance(policy, Policy)
