"""The small parts of the dashboard: words, forms, the editor of policies, commands, drawings, the lock-out."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse import Count, Latency, Policy, Rate, Slow, Streak, profiles
from hookfuse.core.gauges import gauges, nearest
from hookfuse.core.window import Counts
from hookfuse.dashboard import drawing, words
from hookfuse.dashboard.client import Answer, Call, Refused, at, faults
from hookfuse.dashboard.curls import curl, delivery_curl
from hookfuse.dashboard.forms import Form
from hookfuse.dashboard.lockout import FREE_TRIES, Lockout
from hookfuse.dashboard.policy_form import GROUPS, TRIP, field_of, fits, policy_of, typed

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0084, "8 ms"),
        (0.9996, "1 s"),
        (1.44, "1.4 s"),
        (26, "26 s"),
        (240, "4 min"),
        (10_800, "3 h"),
        (1e6, "12 days"),
        (None, "–"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    """Durations are as exact as anyone cares."""
    assert words.seconds(seconds) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0, "0 %"), (0.5, "50 %"), (0.1234, "12.3 %"), (1, "100 %"), (0.99999, "99.9 %"), (None, "–")]
)
def test_shares(share: float | None, text: str) -> None:
    """What is not all of it never looks as if it were."""
    assert words.share(share) == text


@pytest.mark.parametrize(
    ("at_", "text"),
    [
        ("2030-01-01T12:00:00.4Z", "now"),
        ("2030-01-01T11:59:50Z", "10 s ago"),
        ("2030-01-01T12:00:18.9Z", "in 19 s"),
        ("2029-12-31T12:00:00Z", "24 h ago"),
        (None, "–"),
    ],
)
def test_times(at_: str | None, text: str) -> None:
    """Instants are told from now."""
    assert words.ago(at_, NOW) == text


def test_reasons() -> None:
    """Words of ours are told in words; what an operator wrote stays as it is."""
    assert words.reason("exhausted") == "out of tries"
    assert words.reason("status_503") == "status 503"
    assert words.reason("see TICKET_17 in my_tool") == "see TICKET_17 in my_tool"


def test_pretty_keeps_every_sign() -> None:
    """JSON is only indented: numbers, doubled names and escapes stay as they were written."""
    text = '{"b":1.10,"b":9007199254740993,"c":"\\u0000\\ud800"}'
    assert "".join(words.pretty(text).split()) == text
    assert words.pretty("<h1>no JSON</h1>") == "<h1>no JSON</h1>"
    assert words.pretty("[" * 100_000) == "[" * 100_000


POLICIES = [
    Policy(),
    Policy(trip=Streak(2) | Count(4, success_clears=True) | Rate(0.25, 7) | Latency(1.5, 3) | Slow(0.1, 2, 9)),
    Policy(window=None, cool_off=0.25, cool_off_factor=2.5, cool_off_max=99, jitter=0.1, probes=3, mode="shadow"),
    Policy(ramp=30, disable_after=4, reenable_after=3600.5, close_after=2, forget_after=1e6),
    *(getattr(profiles, name)() for name in profiles.__all__),
]


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_survive_the_editor(policy: Policy) -> None:
    """A policy that is shown in the editor and saved untouched is the same policy, its rules in the editor's order."""
    form = Form({name: [text] for name, text in typed(json.loads(policy.to_json())).items()})
    saved = Policy.from_dict(policy_of(form))
    assert set(saved.rules) == set(policy.rules)
    assert replace(saved, trip=policy.trip) == policy


def test_what_the_editor_cannot_hold() -> None:
    """A policy with two rules of one kind is not shown in the editor, which would lose one of them."""
    assert all(fits(policy.to_dict()) for policy in POLICIES)
    assert not fits(Policy(trip=Rate(0.5, 20) | Rate(0.9, 5)).to_dict())


def test_every_field_of_a_policy_can_be_edited() -> None:
    """The editor has a field for every number of a policy and of every rule."""
    plain: dict[str, Any] = POLICIES[1].to_dict()
    shown = {each.name for group in GROUPS for each in group.fields}
    assert shown == set(plain) - {"trip"}
    of_rules = {each.name for rule in TRIP for each in rule.fields}
    assert of_rules == {f"{rule['rule']}.{name}" for rule in plain["trip"] for name in rule if name != "rule"}


def test_faults_are_placed() -> None:
    """What the API says about a rule is said of the rule's own field."""
    refused = Answer(422, {"detail": [{"loc": ["body", "policy", "Rate.share"], "msg": "It must be less."}]})
    (fault,) = faults(refused)
    assert (field_of(fault.field), fault.says) == ("rate.share", "It must be less.")
    assert field_of("policy.window") == "window"
    assert faults(Answer(409, {"detail": "Not now."}))[0].says == "Not now."
    assert faults(Answer(500, None))[0].says == "The API answered 500."


def test_forms() -> None:
    """Numbers, instants and lists are read as they are meant; what is no number is passed on for the API to refuse."""
    form = Form({"a": ["7"], "b": ["0.5"], "c": ["many"], "d": [""], "e": ["2030-01-31T18:00"], "f": ["x, y  z"]})
    assert [form.number(name) for name in "abcdx"] == [7, 0.5, "many", None, None]
    assert form.instant("e") == "2030-01-31T18:00:00Z", "browsers leave the seconds of a round minute out"
    assert Form({"e": ["2030-01-31T18:00:07"]}).instant("e") == "2030-01-31T18:00:07Z"
    assert Form({"e": ["2030-01-31T18:00:07+01:00"]}).instant("e") == "2030-01-31T18:00:07+01:00"
    assert form.instant("d") is None
    assert (form.names("f"), form.names("d")) == (["x", "y", "z"], None)


@given(reason=st.text(max_size=50))
def test_commands_mean_what_they_say(reason: str) -> None:
    """Whatever is in it, a command is one command, with exactly this body, and never with a key."""
    call = Call("POST", "/app/a/breaker/b/force", {"to": "open", "reason": reason})
    parts = shlex.split(curl(call, "http://127.0.0.1:8400"))
    assert parts[:4] == ["curl", "-X", "POST", "http://127.0.0.1:8400/api/v1/app/a/breaker/b/force"]
    assert json.loads(parts[parts.index("-d") + 1]) == call.body
    assert "authorization: Bearer $HOOKFUSE_API_KEY" in parts
    sent = shlex.split(delivery_curl(f"https://example.com/?{reason}", "msg_1", reason))
    assert sent[-1] == reason


@given(step=st.text(max_size=20))
def test_paths_are_made_of_ids(step: str) -> None:
    """A path of the API has exactly the steps it was made of, or is not made at all."""
    try:
        path = at("app", step, "pause")
    except Refused as refused:
        assert refused.status == 404
    else:
        assert path.split("/") == ["", "app", step, "pause"]
        assert step not in (".", "..")


def test_locked_out_for_longer_each_time() -> None:
    """A few tries are free, then each takes longer; success, or an hour of peace, begins anew."""
    now = 0.0
    lockout = Lockout(lambda: now)
    for _ in range(FREE_TRIES - 1):
        lockout.failed("192.0.2.1")
    assert lockout.wait("192.0.2.1") == 0
    waits = []
    for _ in range(8):
        lockout.failed("192.0.2.1")
        waits.append(lockout.wait("192.0.2.1"))
    assert waits == [30, 60, 120, 240, 480, 900, 900, 900]
    assert lockout.wait("192.0.2.2") == 0
    now += 900
    assert lockout.wait("192.0.2.1") == 0
    lockout.succeeded("192.0.2.1")
    lockout.failed("192.0.2.1")
    assert lockout.wait("192.0.2.1") == 0


def test_many_addresses_are_locked_out_together() -> None:
    """Guessing from many addresses is bounded, too, and so is what is remembered of them."""
    lockout = Lockout(lambda: 0.0)
    for number in range(100):
        lockout.failed(f"192.0.2.{number}")
    assert lockout.wait("198.51.100.1") == 30
    for number in range(20_000):
        lockout.failed(f"2001:db8:{number:x}::1")
    assert len(lockout._records) <= 10_000


def test_gauges() -> None:
    """Each rule's figure stands against its limit, and the nearest is the one that would trip first."""
    policy = Policy(trip=Streak(5) | Rate(0.5, min_calls=20) | Latency(2, min_calls=1), window=60)
    found = gauges(policy, Counts(ok=6, failed=2, slow=0, timed=8, latency_ms=12_000), streak=2)
    assert [(each.rule, each.value, each.limit) for each in found] == [
        ("streak", 2, 5),
        ("rate", 0.25, 0.5),
        ("latency", 1.5, 2.0),
    ]
    assert nearest(found).rule == "latency"
    few = gauges(Policy(trip=Streak(5) | Rate(0.5, min_calls=20)), Counts(0, 2, 0, 2, 0), streak=2)
    assert nearest(few).rule == "streak", "two failed calls of two are no share yet"


def test_drawings() -> None:
    """Drawings carry their sizes as attributes, never as styles, and failures in a colour of their own."""
    drawn = drawing.sparkline([0, 4, 2], [1, 0, 2])
    assert (drawn.count('class="good"'), drawn.count('class="bad"')) == (2, 2)
    assert "style" not in drawn + drawing.gauge(3, 5) + drawing.sparkline([0], [0])
    assert 'class="gauge over"' in drawing.gauge(5, 5)
    assert 'class="gauge near"' in drawing.gauge(3, 5)
    assert 'class="gauge unjudged"' in drawing.gauge(5, 5, judged=False)
