"""Behaviours as JSON."""

from __future__ import annotations

import pytest

from hookfuse.errors import InvalidInput
from hookfuse.testing.receivers import (
    Behaviour,
    BigHeader,
    Bomb,
    Dead,
    DripBody,
    DripHeaders,
    Failing,
    Flaky,
    Gone,
    Hang,
    Huge,
    Malformed,
    Ok,
    Order,
    RateLimited,
    Redirect,
    Reset,
    Script,
    Slow,
    Unavailable,
)
from hookfuse.testing.receivers.spec import KINDS, read, read_orders, write, write_orders

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

EVERY_KIND: list[Behaviour] = [
    Ok(201, 0.5, b"\x00\xff"),
    Slow(2),
    Failing(502),
    Gone(),
    Redirect("/x", 307),
    Unavailable("nan"),
    RateLimited(5, 2.5),
    Flaky(0.25, 3, Hang()),
    Script((Ok(), Script((Gone(), Flaky(1, failure=Reset(in_response=False)))))),
    Dead(),
    Hang(),
    Reset(),
    Malformed(b"\xffno"),
    DripHeaders(0.5),
    DripBody(0.5, 3),
    Huge(5),
    Bomb(5),
    BigHeader(5),
]


def test_every_kind_is_known() -> None:
    """There is a word for each behaviour."""
    assert {type(behaviour) for behaviour in EVERY_KIND} == set(KINDS.values())


@pytest.mark.parametrize("behaviour", EVERY_KIND, ids=lambda behaviour: type(behaviour).__name__)
def test_spec_and_back(behaviour: Behaviour) -> None:
    """A behaviour written as JSON reads as the same behaviour."""
    assert read(write(behaviour)) == behaviour
    order = Order(behaviour, secret=SECRET, own_port=True)
    assert read_orders(write_orders({"ep": order})) == {"ep": order}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "JSON object of endpoints by name: "),
        ("[]", "JSON object of endpoints by name, got"),
        ('{"ep": 1}', "an endpoint is an object with a kind"),
        ('{"ep": {}}', "a kind out of ok, slow,"),
        ('{"ep": {"kind": "nice"}}', "a kind out of ok, slow,"),
        ('{"ep": {"kind": ["ok"]}}', "a kind out of ok, slow,"),
        ('{"ep": {"kind": "slow"}}', "slow takes seconds"),
        ('{"ep": {"kind": "gone", "status": 3}}', "gone takes nothing"),
        ('{"ep": {"kind": "ok", "delay": "long"}}', "delay must be a number"),
        ('{"ep": {"kind": "script", "turns": [{"kind": "x"}]}}', "a kind out of"),
    ],
)
def test_bad_spec(text: str, words: str) -> None:
    """A spec that cannot be read is refused with what is wrong with it."""
    with pytest.raises(InvalidInput, match=words):
        read_orders(text)


def test_own_functions_stay_here() -> None:
    """A behaviour of a test's own cannot be sent to another process."""

    class Own:
        begin = Ok().begin

    with pytest.raises(InvalidInput, match="only ready behaviours"):
        write(Own())
