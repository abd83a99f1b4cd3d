"""The editor of policies: every number of a policy as a field, and back.

Nothing is checked here. What was typed goes to the API, which says what is wrong with which field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hookfuse.core.rules import RULES
from hookfuse.dashboard.forms import Form

_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    unit: str = ""
    hint: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleFields:
    """A rule that can be switched on, with its numbers."""

    name: str
    label: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    fields: tuple[Field, ...]


TRIP = (
    RuleFields("streak", "Failures in a row", (Field("streak.n", "at least"),)),
    RuleFields(
        "count",
        "Failures in the window",
        (Field("count.n", "at least"), Field("count.success_clears", "a success clears them", choices=("no", "yes"))),
    ),
    RuleFields(
        "rate",
        "Share of failures",
        (Field("rate.share", "at least", "0 to 1"), Field("rate.min_calls", "of at least", "calls")),
    ),
    RuleFields(
        "latency",
        "Mean latency",
        (Field("latency.mean", "at least", "s"), Field("latency.min_calls", "over at least", "calls")),
    ),
    RuleFields(
        "slow",
        "Share of slow calls",
        (
            Field("slow.share", "at least", "0 to 1"),
            Field("slow.over", "slower than", "s"),
            Field("slow.min_calls", "of at least", "calls"),
        ),
    ),
)
GROUPS = (
    Group(
        "Window and cool-off",
        (
            Field("window", "Window", "s", "how far counts look back; empty: all time"),
            Field("cool_off", "Cool-off", "s", "how long the first trip opens"),
            Field("cool_off_factor", "Grows by", "×", "with each trip in a row"),
            Field("cool_off_max", "At most", "s", "empty: an hour"),
            Field("jitter", "Jitter", "share", "0 to 0.5"),
        ),
    ),
    Group(
        "Coming back",
        (
            Field("probes", "Probes at once", "", "over the whole fleet"),
            Field("probe_lease", "Probe lease", "s", "longer than a request may take"),
            Field("close_after", "Close after", "", "successes in a row"),
            Field("close_rate", "Close rate", "share", "for sampled policies; empty: none"),
            Field("ramp", "Ramp", "s", "in which the flow grows back"),
        ),
    ),
    Group(
        "Disabling and more",
        (
            Field("disable_after", "Disable after", "trips", "in a row; empty: never"),
            Field("reenable_after", "Enable again after", "s", "empty: only by hand"),
            Field("forget_after", "Forget after", "s", "a quiet breaker"),
            Field("evaluate", "Judged", "", "at every outcome, or from samples", ("inline", "sampled")),
            Field("sample_every", "Sample every", "s"),
            Field("mode", "Mode", "", "shadow: decides, but lets every call pass", ("enforce", "shadow")),
        ),
    ),
)


def fits(policy: Mapping[str, Any]) -> bool:
    """Whether the editor can hold a policy: it has one place for each kind of rule."""
    kinds = [rule["rule"] for rule in policy["trip"]]
    return len(set(kinds)) == len(kinds)


def typed(policy: Mapping[str, Any]) -> dict[str, str]:
    """A policy as the API tells it, as the texts of the fields."""
    texts = {name: _text(value) for name, value in policy.items() if name != "trip"}
    for rule in policy["trip"]:
        texts[f"{rule['rule']}"] = "on"
        texts |= {f"{rule['rule']}.{name}": _text(value) for name, value in rule.items() if name != "rule"}
    return texts


def policy_of(form: Form) -> dict[str, Any]:
    """What was typed, as a policy for the API."""
    policy: dict[str, Any] = {each.name: form.number(each.name) for group in GROUPS for each in group.fields}
    # What has a default is left to it if nothing was typed; for these, nothing means none.
    optional = {"window", "cool_off_max", "close_rate", "disable_after", "reenable_after"}
    policy = {name: value for name, value in policy.items() if value is not None or name in optional}
    policy["trip"] = [_rule(each, form) for each in TRIP if form.has(each.name)]
    return policy


def field_of(fault: str) -> str:
    """The field of the form that the API means by a place such as `policy.Rate.share` or `throttleRate`."""
    place = fault.removeprefix("policy.")
    kind, dot, name = place.partition(".")
    known = {made.__name__: rule for rule, made in RULES.items()}
    return f"{known.get(kind) or _HUMP.sub('_', kind).lower()}{dot}{name}"


def _rule(rule: RuleFields, form: Form) -> dict[str, Any]:
    made: dict[str, Any] = {"rule": rule.name}
    for each in rule.fields:
        value = form.number(each.name)
        if each.choices:
            value = value == "yes"
        if value is not None:
            made[each.name.partition(".")[2]] = value
    return made


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return ""
    return f"{value:.12g}" if isinstance(value, float) else str(value)
