"""What the integrations share: reading an answer, passing on a refusal, and the checks that answer misuse."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import mktime_tz, parsedate_tz
from http import HTTPStatus
from typing import Any, TypeVar

from hookfuse.breakers import AsyncBreakers, Breakers
from hookfuse.breakers.guard import Call
from hookfuse.core.outcome import Outcome, classify_status
from hookfuse.errors import BreakerOpen, InvalidInput

T = TypeVar("T")

_REDIRECTS = frozenset({301, 302, 303, 307, 308})


def read_answer(status: int, headers: Mapping[str, str]) -> Outcome:
    """The outcome of an answer by its status.

    A redirect counts nothing: clients follow it by themselves, and the request that it leads to is judged.
    """
    if status == HTTPStatus.SWITCHING_PROTOCOLS:
        return Outcome.OK
    if status in _REDIRECTS and "Location" in headers:
        return Outcome.IGNORED
    retry_after = headers.get("Retry-After")
    return classify_status(status, retry_after, now=0.0 if retry_after is None else _sent_at(headers))


def judge(call: Call[Any], classify: Callable[[T], Outcome], response: T, status: int) -> None:
    """Set the outcome of a call that got an answer."""
    # A fault in the caller's own `classify` says nothing about the endpoint.
    with ignoring(call, Exception):
        outcome = classify(response)
        if not isinstance(outcome, Outcome):
            raise InvalidInput(f"classify must return an Outcome, got {outcome!r}.")
    if outcome != Outcome.OK:  # which is what a guarded block says by itself, at less cost
        call.record(outcome, error=_describe(status))


@contextmanager
def ignoring(call: Call[Any], errors: type[Exception]) -> Iterator[None]:
    """Count nothing when one of `errors` ends the call."""
    try:
        yield
    except errors:
        call.record(Outcome.IGNORED)
        raise


@contextmanager
def refusals_as(error: Callable[..., BreakerOpen], **more: object) -> Iterator[None]:
    """Raise a refusal as the client's own kind of error."""
    try:
        yield
    except BreakerOpen as refusal:
        raise error(*refusal.args, **more) from None


def check_setup(
    who: str, face: type[Breakers | AsyncBreakers], breakers: object, key: object, classify: object
) -> None:
    if not isinstance(breakers, face):
        where = "on asyncio" if face is AsyncBreakers else "in threads"
        raise InvalidInput(f"{who} runs {where} and takes {face.__name__}, got {breakers!r}.")
    _check_function("key", "of the request that returns a breaker key or None", key)
    _check_function("classify", "of the response that returns an Outcome", classify)


def _check_function(name: str, what: str, given: object) -> None:
    if not callable(given) or inspect.iscoroutinefunction(given):
        raise InvalidInput(f"{name} must be a plain function {what}, got {given!r}.")


def _describe(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _sent_at(headers: Mapping[str, str]) -> float:
    """When the answer was sent, by the clock that also set a Retry-After date; ours may differ from it."""
    try:
        date = parsedate_tz(headers.get("Date", ""))
        return time.time() if date is None else float(mktime_tz(date))
    except (ValueError, OverflowError):
        return time.time()
