"""Errors as the API tells them: application/problem+json with `code` and `detail`.

For input that cannot be used (422) `detail` is a list of {loc, msg, type}; SDKs read it so. Else it is a sentence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from math import isfinite
from typing import Any

import msgspec

from hookfuse.errors import (
    Conflict,
    HookfuseError,
    InvalidField,
    InvalidInput,
    SealingError,
    StoreError,
    StoreUnavailable,
)

CONTENT_TYPE = "application/problem+json"
RETRY_AFTER = 1
_AT = re.compile(r"(?P<what>.*?)(?: - at `(?P<at>\$[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[([^\]]+)\]")
_TITLES = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    422: "Input that cannot be used",
    429: "Too many requests",
    500: "Something went wrong here",
    503: "Not possible now",
}


class Fault(msgspec.Struct, frozen=True):
    """What is wrong with one part of the input."""

    loc: list[str]
    msg: str
    type: str


class Problem(Exception):
    """An answer that is an error."""

    def __init__(
        self, status: int, code: str, detail: str | list[Fault], headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(status, code, detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers

    def body(self) -> bytes:
        return msgspec.json.encode(
            {
                "title": _TITLES.get(self.status, "Error"),
                "status": self.status,
                "code": self.code,
                "detail": self.detail,
            }
        )


class ProblemOut(msgspec.Struct):
    """Why a request was refused."""

    title: str
    status: int
    code: str
    detail: str


class InvalidOut(msgspec.Struct):
    """Which input cannot be used, and why."""

    title: str
    status: int
    code: str
    detail: list[Fault]


def not_found(what: str) -> Problem:
    return Problem(404, "not_found", f"There is no such {what}.")


def unauthenticated() -> Problem:
    headers = (("www-authenticate", "Bearer"),)
    return Problem(401, "authentication_failed", "Send a valid API key as `Authorization: Bearer KEY`.", headers)


def forbidden() -> Problem:
    return Problem(403, "insufficient_access", "This key may not do that.")


def too_large(limit: int) -> Problem:
    # What was not read is not read any more.
    return Problem(413, "payload_too_large", f"A body may have {limit} bytes at most.", (("connection", "close"),))


def invalid(message: str, *loc: str, kind: str = "value_error") -> Problem:
    return Problem(422, "validation_error", [Fault(list(loc), message, kind)])


def malformed(error: Exception, where: str) -> Problem:
    """What a decoder said, told by its place."""
    if isinstance(error, RecursionError):
        return invalid("It is nested too deeply.", where, kind="json_invalid")
    found = _AT.fullmatch(str(error))
    assert found is not None
    steps = [name or index for name, index in _STEP.findall(found["at"] or "")]
    kind = "type_error" if isinstance(error, msgspec.ValidationError) else "json_invalid"
    return invalid(f"{found['what']}.", where, *steps, kind=kind)


def unfit_number(body: bytes, where: str) -> Problem | None:
    """A number that is none (NaN, Infinity) or too large for one, told by its place; a decoder names no place."""
    try:
        steps = _to_unfit_number(json.loads(body))
    except (ValueError, RecursionError):
        return None
    return None if steps is None else invalid("It must be a finite number.", where, *steps)


def _to_unfit_number(value: object) -> tuple[str, ...] | None:
    """The way to the first of them."""
    if isinstance(value, float) and not isfinite(value):
        return ()
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        steps = _to_unfit_number(each)
        if steps is not None:
            return (str(name), *steps)
    return None


def told(error: HookfuseError, where: str = "body") -> Problem:
    """An error of the inner layers as an answer."""
    match error:
        case InvalidField():
            return invalid(str(error), where, error.field)
        case InvalidInput():
            return invalid(str(error), where)
        case Conflict():
            return Problem(409, "conflict", str(error))
        case StoreUnavailable():
            sentence = "The database or Redis cannot be used at the moment. Try again."
            return Problem(503, "unavailable", sentence, (("retry-after", str(RETRY_AFTER)),))
        case StoreError() | SealingError():
            return Problem(500, "internal_error", "This could not be done; the log of the server says why.")
        case _:
            raise error


@contextmanager
def field(name: str, *more: str) -> Iterator[None]:
    """What cannot be used in this block is told as this field of the body."""
    try:
        yield
    except InvalidInput as error:
        raise invalid(str(error), "body", name, *more) from error


def internal_error() -> Problem:
    return Problem(500, "internal_error", "Something went wrong here; the log of the server says what.")


def documented(status: int) -> type[Any]:
    """The model of an error with this status."""
    return InvalidOut if status == 422 else ProblemOut
