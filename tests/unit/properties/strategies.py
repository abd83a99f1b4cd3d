"""How the property tests draw policies, outcomes and junk, and how long they look."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from operator import or_
from typing import Any, cast

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from hookfuse import Count, Latency, Outcome, Policy, Rate, Slow, Streak
from hookfuse.core.policy import Evaluate, Mode
from hookfuse.core.rules import AnyOf, Rule
from hookfuse.errors import InvalidPolicy

IN_CI = bool(os.environ.get("CI"))
TIMES = int(os.environ.get("HOOKFUSE_EXAMPLES", "1"))
DAY = 86_400.0


def look(examples: int, **more: Any) -> settings:
    """Settings for one property.

    In CI every run is the same; elsewhere each draws anew. A failure prints the blob that repeats it. To look longer,
    set HOOKFUSE_EXAMPLES to a factor.
    """
    return settings(
        max_examples=examples * TIMES,
        deadline=None,
        derandomize=IN_CI,
        print_blob=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
        **more,
    )


def _joined(rules: Sequence[Rule]) -> Rule | AnyOf:
    return cast(Rule | AnyOf, reduce(or_, rules))


def _trips(rule: SearchStrategy[Rule]) -> SearchStrategy[Rule | AnyOf]:
    return st.lists(rule, min_size=1, max_size=3).map(_joined)


_TOUCHY_RULES: tuple[Rule, ...] = (
    *(Streak(n) for n in (1, 2, 3)),
    *(Count(n, success_clears=clears) for n in (1, 2, 4) for clears in (False, True)),
    *(Rate(share, min_calls=least) for share in (0.25, 0.5, 1.0) for least in (1, 2, 4)),
    *(Latency(mean, min_calls=least) for mean in (0.05, 0.2) for least in (1, 3)),
    *(Slow(share, 0.1, min_calls=least) for share in (0.5, 1.0) for least in (1, 3)),
)
TOUCHY: dict[str, Sequence[Any]] = {
    "trip": (*_TOUCHY_RULES, *map(_joined, pairwise(_TOUCHY_RULES)), Streak(3) | Rate(0.5, min_calls=3) | Count(4)),
    "window": (1.0, 0.01, 0.1, 1.005, 10.0, 60.0, None),
    "cool_off": (0.5, 0.001, 2.0, 10.0),
    "cool_off_factor": (1.0, 2.0, 3.0),
    "widest": (None, 1, 4),
    "jitter": (0.0, 0.0, 0.2, 0.5),
    "probes": (1, 2, 3),
    "probe_lease": (1.0, 0.01, 5.0),
    "close_after": (1, 2, 3),
    "close_rate": (None, 0.5),
    "ramp": (0.0, 1.0, 5.0),
    "disable_after": (None, None, 1, 2, 3),
    "reenable_after": (None, 3.0),
    "evaluate": ("inline", "inline", "sampled"),
    "mode": ("enforce", "enforce", "enforce", "shadow"),
}
"""Numbers whose every edge lies within a few calls and a few steps of time."""


def touchy(widest: int | None, evaluate: str, **numbers: Any) -> Policy:
    """A policy from numbers of the table."""
    evaluate = "inline" if numbers["window"] is None else evaluate
    longest = None if widest is None else widest * numbers["cool_off"]
    numbers |= {"evaluate": evaluate, "sample_every": 0.01, "forget_after": 4 * 3600.0}
    return Policy(cool_off_max=longest, **numbers)


touchy_policies = st.builds(touchy, **{name: st.sampled_from(choices) for name, choices in TOUCHY.items()})


def _durations(low: float, high: float) -> SearchStrategy[float | timedelta]:
    numbers = st.floats(low, high) | st.integers(max(int(low), 1), int(high)).map(float)
    spans = st.timedeltas(timedelta(seconds=max(low, 0.002)), timedelta(seconds=high))
    return numbers | spans


_COUNTS = st.integers(1, 1_000_000)
_SHARES = st.floats(0, 1, exclude_min=True)
_rules: SearchStrategy[Rule] = st.one_of(
    st.builds(Streak, _COUNTS),
    st.builds(Count, _COUNTS, success_clears=st.booleans()),
    st.builds(Rate, _SHARES | st.just(1), min_calls=_COUNTS),
    st.builds(Latency, st.floats(0.001, DAY), min_calls=_COUNTS),
    st.builds(Slow, _SHARES, st.sampled_from([0.001, 2.5, DAY]), min_calls=_COUNTS),
)
_FIELDS: dict[str, SearchStrategy[Any]] = {
    "trip": _trips(_rules),
    "window": st.none() | _durations(0.01, 30 * DAY),
    "cool_off": _durations(0.001, 30 * DAY),
    "cool_off_factor": st.floats(1, 10),
    "cool_off_max": st.none() | _durations(0.001, 30 * DAY),
    "jitter": st.floats(0, 0.5),
    "probes": st.integers(1, 1_000),
    "probe_lease": _durations(0.01, DAY),
    "close_after": st.integers(1, 1_000),
    "close_rate": st.none() | _SHARES,
    "ramp": _durations(0, DAY),
    "disable_after": st.none() | st.integers(1, 1_000_000),
    "reenable_after": st.none() | _durations(0.001, 366 * DAY),
    "forget_after": _durations(1, 3660 * DAY),
    "evaluate": st.sampled_from([*Evaluate, "inline", "sampled"]),
    "sample_every": _durations(0.001, DAY),
    "mode": st.sampled_from([*Mode, "enforce", "shadow"]),
}


@st.composite
def policies(draw: DrawFn) -> Policy:
    """Any policy there can be; where fields do not go together, the largest of them give way."""
    given_fields = draw(st.fixed_dictionaries({}, optional=_FIELDS))
    for _ in range(4):
        try:
            return Policy(**given_fields)
        except InvalidPolicy as error:
            # Each of these alone is in its bounds, so what is wrong is only how they go together.
            given_fields.pop(error.field, None)
            if error.field == "forget_after":
                given_fields["forget_after"] = 3660 * DAY
            elif error.field in ("window", "trip"):
                given_fields.pop("evaluate", None)
    return Policy()


OUTCOMES = {
    "ok": Outcome.OK,
    "failure": Outcome.FAILURE,
    "ignored": Outcome.IGNORED,
    **{f"throttled {seconds:g} s": Outcome.throttled(seconds) for seconds in (0.0, 2.0, 30.0, 3600.0, 9e9)},
}
outcomes = st.sampled_from(["ok", "failure", "failure", "ok", "failure", *OUTCOMES])
"""By name, which reads better where a history is printed."""

LATENCIES = (None, 0.0, 0.0494, 0.0495, 0.05, 0.099, 0.1, 0.2, 0.35)

HUGE = (10**400, -(10**400), 1e300, -1e300, 1e16, float("inf"), float("-inf"), float("nan"), 2**63, 2**53 + 1)


class Odd:
    """Something that no interface expects."""

    def __repr__(self) -> str:
        return "<odd>"


junk: SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(HUGE),
    st.integers(),
    st.floats(),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=20),
    st.sampled_from(["", "key", "x" * 513, "\ud800", "é" * 300, "https://e.test/h", "60"]),
    st.binary(max_size=10),
    st.timedeltas(),
    st.sampled_from([timedelta.max, timedelta.min, datetime(2024, 1, 1), Decimal("1.5"), Fraction(1, 3), 1j]),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.builds(Odd),
    st.sampled_from([Odd, int, len, ValueError("no"), KeyboardInterrupt(), Outcome.OK, Policy(), ..., set]),
)
"""Values of every kind; some of them can be used in some places."""
