"""Ids sort by time; names are what the public interface takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookfuse.core.ids import (
    IdKind,
    IdSequence,
    check_channel,
    check_event_type,
    check_id,
    check_uid,
    made_ms,
    make_id,
)
from hookfuse.errors import InvalidField, InvalidInput
from tests.unit.properties.strategies import junk, look

kinds = st.sampled_from(list(IdKind))
instants = st.integers(0, 2**48 - 1)
entropies = st.binary(min_size=10, max_size=10)


def test_a_known_id() -> None:
    """The text after the prefix is a ULID: this one is that of its specification's example."""
    entropy = 0xD6764C61EFB99302BD5B
    assert make_id(IdKind.MESSAGE, 1_469_922_850_259, entropy.to_bytes(10)) == "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"


@look(300)
@given(kinds, instants, entropies)
def test_made_ids_are_good(kind: IdKind, now_ms: int, entropy: bytes) -> None:
    """An id passes its own check, is refused as any other kind, and tells when it was made."""
    made = make_id(kind, now_ms, entropy)
    assert check_id(kind, made) == made
    assert made_ms(made) == now_ms
    for other in set(IdKind) - {kind}:
        with pytest.raises(InvalidField):
            check_id(other, made)


@look(300)
@given(kinds, st.tuples(instants, entropies), st.tuples(instants, entropies))
def test_ids_sort_by_time(kind: IdKind, one: tuple[int, bytes], two: tuple[int, bytes]) -> None:
    """Ids sort as their time and then their random part, and are equal only if both are."""
    first, second = make_id(kind, *one), make_id(kind, *two)
    assert (first < second) == (one < two)
    assert (first == second) == (one == two)
    assert (first.lower() < second.lower()) == (one < two)


@look(100)
@given(st.lists(st.tuples(st.integers(0, 3), entropies), min_size=2))
def test_a_sequence(made: list[tuple[int, bytes]]) -> None:
    """Ids of a sequence sort in the order in which they were made, whatever the clock and the dice say."""
    sequence = IdSequence(IdKind.MESSAGE)
    ids = [check_id(IdKind.MESSAGE, sequence.make(now_ms, entropy)) for now_ms, entropy in made]
    assert ids == sorted(set(ids))


def test_a_long_sequence() -> None:
    """A millisecond that is full takes from the next one, and the next one goes on after that."""
    sequence = IdSequence(IdKind.MESSAGE)
    ids = [sequence.make(7, bytes(10)) for _ in range(0x10000 + 2)] + [sequence.make(8, bytes(10))]
    assert ids == sorted(set(ids))
    assert {made_ms(each) for each in ids} == {7, 8}


@pytest.mark.parametrize(("now_ms", "entropy"), [(-1, bytes(10)), (2**48, bytes(10)), (0, bytes(9)), (0, bytes(11))])
def test_misuse(now_ms: int, entropy: bytes) -> None:
    """A time or a random part that does not fit is refused."""
    with pytest.raises(InvalidInput):
        make_id(IdKind.APP, now_ms, entropy)


GOOD = "msg_01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "msg_",
        GOOD.lower(),
        GOOD[:-1],
        f"{GOOD}0",
        f"{GOOD}\n",
        f" {GOOD}",
        GOOD.replace("msg", "app"),
        GOOD.replace("01", "81"),
        GOOD.replace("A", "I"),
        GOOD.replace("A", "\uff21"),
        GOOD.removeprefix("msg_"),
        None,
        7,
        GOOD.encode(),
    ],
)
def test_bad_ids(bad: object) -> None:
    """Anything but an id of the kind is refused with the field's name."""
    with pytest.raises(InvalidField, match=r"^message_id must be an id such as msg_") as caught:
        check_id(IdKind.MESSAGE, bad)
    assert caught.value.field == "message_id"


def uid(text: object) -> str:
    return check_uid(IdKind.APP, text)


@pytest.mark.parametrize(
    ("check", "field", "most"),
    [(uid, "uid", 256), (check_event_type, "event_type", 256), (check_channel, "channel", 128)],
)
def test_names(check: Callable[[object], str], field: str, most: int) -> None:
    """Names are letters, digits, dots, hyphens and underscores, up to their length, and nothing else."""
    for good in ("a", "invoice.paid", "A-b_c.9", "...", "x" * most):
        assert check(good) == good
    for bad in ("", "x" * (most + 1), "a b", "a\n", "ä", "a/b", "a:b", "<script>", "\x00", None, 7, b"a", ["a"]):
        with pytest.raises(InvalidField) as caught:
            check(bad)
        assert caught.value.field == field


def test_a_uid_is_no_id() -> None:
    """A uid may not begin like an id of its kind, so that a path can take either."""
    with pytest.raises(InvalidField, match="not begin with app_"):
        check_uid(IdKind.APP, "app_mine")
    assert check_uid(IdKind.APP, "ep_mine") == "ep_mine"


@look(200)
@given(junk)
def test_junk(value: Any) -> None:
    """Junk is refused as a field, never with another error."""
    for check in (uid, check_event_type, check_channel, lambda text: check_id(IdKind.ENDPOINT, text)):
        try:
            check(value)
        except InvalidField as error:
            assert str(error)
