"""How statuses, headers and exceptions are read."""

from __future__ import annotations

import errno
import pickle
from datetime import timedelta

import pytest

from hookfuse import Outcome
from hookfuse.core.outcome import Failure, classify_exception, classify_status, parse_retry_after
from hookfuse.errors import BreakerOpen, InvalidInput

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("status", "retry_after", "outcome"),
    [
        (200, None, Outcome.OK),
        (204, None, Outcome.OK),
        (299, None, Outcome.OK),
        (199, None, Outcome.FAILURE),
        (301, None, Outcome.FAILURE),
        (400, None, Outcome.FAILURE),
        (404, "30", Outcome.FAILURE),
        (410, None, Outcome.FAILURE),
        (429, None, Outcome.FAILURE),
        (429, "30", Outcome.throttled(30)),
        (500, "30", Outcome.FAILURE),
        (503, None, Outcome.FAILURE),
        (503, "120", Outcome.throttled(120)),
        (503, "soon", Outcome.FAILURE),
    ],
)
def test_status(status: int, retry_after: str | None, outcome: Outcome) -> None:
    """2xx is a success, 429 and 503 with a Retry-After are throttled, everything else is a failure."""
    assert classify_status(status, retry_after, now=NOW) == outcome


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("0", 1.0),
        ("-1", 1.0),
        ("nan", 1.0),
        ("1e309", 3600.0),
        (" 30 ", 30.0),
        ("1.5", 1.5),
        ("99999999999", 3600.0),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60.0),
        ("Tue, 14 Nov 2023 22:14:20", 60.0),
        ("Tue, 14 Nov 2000 22:14:20 GMT", 1.0),
        ("Tue, 14 Nov 2099 22:14:20 GMT", 3600.0),
        ("soon", None),
        ("", None),
        ("Tue, 99 Nov 2023 22:14:20 GMT", None),
    ],
)
def test_retry_after(header: str, seconds: float | None) -> None:
    """A Retry-After is a number or a date, held within a second and an hour; anything else is none."""
    assert parse_retry_after(header, NOW) == seconds


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENETUNREACH, errno.ENETDOWN])
def test_our_own_fault(number: int) -> None:
    """Errors of this machine are ignored, also as the cause or context of a client's error."""
    ours = OSError(number, "ours")
    assert classify_exception(ours) is Outcome.IGNORED
    try:
        try:
            raise ours
        except OSError:
            raise ConnectionError("wrapped")  # noqa: B904
    except ConnectionError as wrapped:
        assert classify_exception(wrapped) is Outcome.IGNORED


def test_our_own_fault_in_a_group() -> None:
    """A cause that a client hid with `from None`, or put into a group, is found as well."""
    try:
        try:
            raise ExceptionGroup("all addresses failed", [TimeoutError(), OSError(errno.EMFILE, "ours")])
        except ExceptionGroup:
            raise ConnectionError("hidden") from None
    except ConnectionError as hidden:
        assert classify_exception(hidden) is Outcome.IGNORED


def test_the_endpoint_s_fault() -> None:
    """Refused, reset, timed out and unknown errors are failures, even while another refusal is handled."""
    for error in (ConnectionRefusedError(errno.ECONNREFUSED, "x"), TimeoutError(), ValueError("x")):
        assert classify_exception(error) is Outcome.FAILURE
    try:
        try:
            raise BreakerOpen("other", "open", None, "open")
        except BreakerOpen:
            raise ConnectionError("the fallback failed too")  # noqa: B904
    except ConnectionError as error:
        assert classify_exception(error) is Outcome.FAILURE


def test_outcomes_compare_and_travel() -> None:
    """Outcomes compare by value and survive pickling."""
    assert pickle.loads(pickle.dumps(Outcome.OK)) == Outcome.OK
    assert Outcome.throttled(timedelta(minutes=1)) == Outcome.throttled(60)
    assert Outcome.throttled(60).retry_after == 60
    assert Outcome.OK.retry_after is None
    assert repr(Outcome.throttled(60)) == "Outcome.throttled(retry_after=60)"
    assert repr(Outcome.FAILURE) == "Outcome.FAILURE"


def test_throttled_misuse() -> None:
    """A retry_after that is no duration is refused."""
    with pytest.raises(InvalidInput, match="retry_after must be seconds"):
        Outcome.throttled("30")  # type: ignore[arg-type]


def test_unreadable_error() -> None:
    """An error whose text raises is kept all the same."""

    class Unreadable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    assert Failure.of(Unreadable(), NOW).message == "(an error whose text cannot be read)"


def test_refusals_travel() -> None:
    """A refusal survives pickling with its facts and its sentence."""
    refusal = BreakerOpen("ep", "open", NOW, "open", "why", 3.0)
    copy = pickle.loads(pickle.dumps(refusal))
    assert str(copy) == str(refusal)
    assert (copy.key, copy.retry_at, copy.retry_after) == ("ep", NOW, 3.0)
