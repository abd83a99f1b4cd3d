"""What an attempt says about the endpoint, and how statuses and exceptions are read as that."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, TypeAlias

from hookfuse.core.bounds import Duration
from hookfuse.errors import BreakerOpen, InvalidInput, shown

HOLD_MIN_MS = 1_000
HOLD_MAX_MS = 3_600_000
MESSAGE_BYTES = 200


class Kind(StrEnum):
    OK = "ok"
    FAILURE = "failure"
    THROTTLED = "throttled"
    IGNORED = "ignored"


# Short for the code that runs per call, where reading a member through its class is slow.
OK: Final = Kind.OK
FAILURE: Final = Kind.FAILURE
THROTTLED: Final = Kind.THROTTLED
IGNORED: Final = Kind.IGNORED


@dataclass(frozen=True, slots=True)
class Outcome:
    """OK, FAILURE, IGNORED (our own fault: says nothing about the endpoint) or `throttled(retry_after)`."""

    kind: Kind
    hold_ms: int = 0

    OK: ClassVar[Outcome]
    FAILURE: ClassVar[Outcome]
    IGNORED: ClassVar[Outcome]

    @staticmethod
    def throttled(retry_after: Duration = 1.0) -> Outcome:
        """The endpoint asked to be left alone: neither a success nor a failure.

        `retry_after` is held within 1 s and 1 h.
        """
        seconds = retry_after.total_seconds() if isinstance(retry_after, timedelta) else retry_after
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise InvalidInput(f"retry_after must be seconds or a timedelta, got {shown(retry_after)}.")
        return Outcome(Kind.THROTTLED, _clamp_ms(seconds))

    @property
    def retry_after(self) -> float | None:
        return self.hold_ms / 1000 if self.kind is Kind.THROTTLED else None

    def __repr__(self) -> str:
        if self.kind is Kind.THROTTLED:
            return f"Outcome.throttled(retry_after={self.hold_ms / 1000:g})"
        return f"Outcome.{self.kind.name}"


Outcome.OK = Outcome(Kind.OK)
Outcome.FAILURE = Outcome(Kind.FAILURE)
Outcome.IGNORED = Outcome(Kind.IGNORED)

Classify: TypeAlias = Callable[[Exception], Outcome]


_new = tuple.__new__  # Half the time of calling a named tuple's class.


class Failure(NamedTuple):
    """One failure as it is kept with its breaker: the error's class, its message (cut), and when."""

    type: str
    message: str
    at: float

    @classmethod
    def of(cls, error: BaseException | str | None, at: float) -> Failure:
        if isinstance(error, BaseException):
            return _new(cls, (type(error).__qualname__, _cut(_text(error)), at))
        return _new(cls, ("failure", _cut(error or ""), at))


_OURS = frozenset(
    getattr(errno, name)
    for name in ("EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "ENETDOWN", "ENETUNREACH", "EADDRNOTAVAIL")
    if hasattr(errno, name)
)


# As a tuple: `A | B` would be built anew for each error.
_NEVER_THEIRS = (MemoryError, BreakerOpen)


def classify_exception(error: Exception) -> Outcome:
    """FAILURE, unless the error is our own: out of descriptors or memory, no network, or refused by a breaker.

    Clients wrap such errors, so the causes are looked at too.
    """
    if isinstance(error, _NEVER_THEIRS):
        return Outcome.IGNORED
    if error.__cause__ is error.__context__ is None and not isinstance(error, BaseExceptionGroup):
        return Outcome.IGNORED if _is_ours(error) else Outcome.FAILURE
    return Outcome.IGNORED if any(_is_ours(cause) for cause in _causes(error)) else Outcome.FAILURE


def classify_status(status: int, retry_after: str | None = None, *, now: float) -> Outcome:
    """Read an HTTP status: 2xx is OK, 429 and 503 with a Retry-After are throttled, the rest FAILURE."""
    if isinstance(status, bool) or not isinstance(status, int):
        raise InvalidInput(f"A status is a whole number such as 503, got {shown(status)}.")
    if 200 <= status < 300:
        return Outcome.OK
    if status in (429, 503) and retry_after is not None:
        wait = parse_retry_after(retry_after, now)
        if wait is not None:
            return Outcome.throttled(wait)
    return Outcome.FAILURE


def parse_retry_after(value: str, now: float) -> float | None:
    """Seconds to wait by a Retry-After header (a number or an HTTP date), within 1 s and 1 h; None if neither."""
    if not isinstance(value, str):
        raise InvalidInput(f"A Retry-After is the text of a header, got {shown(value)}.")
    text = value.strip()
    try:
        return _clamp_ms(float(text)) / 1000
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(text)
        instant = (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
    return _clamp_ms(instant - now) / 1000


def _clamp_ms(seconds: float) -> int:
    # Compared before it is multiplied: a huge int is no float, and nan is neither more nor less.
    if seconds >= HOLD_MAX_MS / 1000:
        return HOLD_MAX_MS
    return int(seconds * 1000 + 0.5) if seconds > HOLD_MIN_MS / 1000 else HOLD_MIN_MS


def _is_ours(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _OURS


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        cause = pending.pop()
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        # `from None` hides a cause from readers (httpcore does so), but it is one all the same.
        pending.append(cause.__cause__ or cause.__context__)
        if isinstance(cause, BaseExceptionGroup):
            pending.extend(cause.exceptions)


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(an error whose text cannot be read)"


def _cut(text: str) -> str:
    if len(text) <= MESSAGE_BYTES and text.isascii():
        return text
    data = text.encode("utf-8", "replace")
    return data[:MESSAGE_BYTES].decode("utf-8", "ignore")
