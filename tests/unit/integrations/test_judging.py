"""How an answer is read."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest

from hookfuse import Outcome
from hookfuse.integrations._judging import read_answer


@pytest.mark.parametrize(
    ("status", "headers", "outcome"),
    [
        (200, {}, Outcome.OK),
        (299, {"Retry-After": "5"}, Outcome.OK),
        (101, {}, Outcome.OK),
        (302, {"Location": "/"}, Outcome.IGNORED),
        (302, {}, Outcome.FAILURE),
        (304, {}, Outcome.FAILURE),
        (404, {}, Outcome.FAILURE),
        (429, {}, Outcome.FAILURE),
        (429, {"Retry-After": "5"}, Outcome.throttled(5)),
        (429, {"Retry-After": "soon"}, Outcome.FAILURE),
        (500, {"Retry-After": "5"}, Outcome.FAILURE),
        (503, {"Retry-After": "99999"}, Outcome.throttled(3600)),
    ],
)
def test_answer_is_read_by_its_status(status: int, headers: dict[str, str], outcome: Outcome) -> None:
    """2xx and a switch of protocols are OK, Retry-After throttles 429 and 503, a redirect counts nothing."""
    assert read_answer(status, headers) == outcome


@pytest.mark.parametrize("date", [None, "", "yesterday", "Thu, 01 Jan 99999 00:00:00 GMT"])
def test_retry_after_date_without_a_usable_date_is_counted_on_our_clock(date: str | None) -> None:
    """Where the server does not say when it answered, a Retry-After date is compared with our own clock."""
    headers = {"Retry-After": formatdate(time.time() + 600, usegmt=True)}
    if date is not None:
        headers["Date"] = date
    hold = read_answer(503, headers).retry_after
    assert hold is not None
    assert 500 < hold <= 600
