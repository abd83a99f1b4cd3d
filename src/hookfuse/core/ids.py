"""Ids and names: how ours are made, and what others may be.

An id is a prefix and 26 characters: 48 bits of milliseconds and 80 random bits in Crockford's base 32, as in a ULID.
So ids sort by the time they were made, in every collation, because they use one case only. Those of a sequence sort so
within a millisecond too.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache

from hookfuse.errors import InvalidField, InvalidInput, shown

ENTROPY_BYTES = 10
ID_LENGTH = 256
"""The most characters of an id, whoever made it."""

_LENGTH = 26
_SIGNS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_VALUES = {sign: value for value, sign in enumerate(_SIGNS)}
# Two signs at a time, which takes a third of the time of `base64.b32encode`.
_PAIRS = tuple(first + second for first in _SIGNS for second in _SIGNS)
_TIME_SHIFTS = tuple(range(40, -1, -10))
_ENTROPY_SHIFTS = tuple(range(70, -1, -10))
_BODY = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}", re.ASCII)
_NAME = re.compile(r"[a-zA-Z0-9\-_.]+", re.ASCII)


class IdKind(StrEnum):
    """What an id is of; the value is its prefix."""

    APP = "app"
    ENDPOINT = "ep"
    MESSAGE = "msg"
    ATTEMPT = "atmpt"
    KEY = "key"
    AUDIT = "audit"
    TASK = "qtask"
    NOTICE = "ntc"


_PREFIXES = {kind: f"{kind.value}_" for kind in IdKind}


def make_id(kind: IdKind, now_ms: int, entropy: bytes) -> str:
    """A new id. `entropy` is ten random bytes."""
    if len(entropy) != ENTROPY_BYTES or not 0 <= now_ms < 1 << 48:
        raise InvalidInput(
            f"An id takes Unix milliseconds and ten bytes, got {shown(now_ms)} and {len(entropy)} bytes."
        )
    value = int.from_bytes(entropy)
    return _PREFIXES[kind] + _time_text(now_ms) + "".join([_PAIRS[value >> shift & 1023] for shift in _ENTROPY_SHIFTS])


@lru_cache(maxsize=16)
def _time_text(now_ms: int) -> str:
    # Many ids are made within a millisecond.
    return "".join([_PAIRS[now_ms >> shift & 1023] for shift in _TIME_SHIFTS])


class IdSequence:
    """Makes ids of one kind that sort in the order in which they were made, also within a millisecond.

    Two of the random bytes are a number instead that begins anew with each millisecond. A clock that goes back is not
    followed.
    """

    def __init__(self, kind: IdKind) -> None:
        self._kind = kind
        self._last_ms = -1
        self._number = 0

    def make(self, now_ms: int, entropy: bytes) -> str:
        """The next id. `entropy` is ten random bytes, of which eight are used."""
        if now_ms > self._last_ms:
            self._last_ms, self._number = now_ms, 0
        elif self._number < 0xFFFF:
            self._number += 1
        else:
            self._last_ms, self._number = self._last_ms + 1, 0
        return make_id(self._kind, self._last_ms, self._number.to_bytes(2) + entropy[2:])


def made_ms(some_id: str) -> int:
    """When a checked id was made, in Unix milliseconds."""
    value = 0
    for sign in some_id[-_LENGTH:-16]:
        value = value * 32 + _VALUES[sign]
    return value


def check_id(kind: IdKind, text: object) -> str:
    prefix, _, body = text.partition("_") if isinstance(text, str) else ("", "", "")
    if prefix != kind.value or not _BODY.fullmatch(body):
        like = f"{kind.value}_01HF7YAT00ZK8J8Q0T3ZQ4M5C6"
        raise InvalidField(f"{kind.name.lower()}_id", f"be an id such as {like}", text)
    return str(text)


def check_uid(kind: IdKind, text: object, field: str = "uid") -> str:
    """A name of the caller's own choice that stands for an id; it cannot be mistaken for one."""
    uid = _check_name(field, text, 256)
    if uid.startswith(f"{kind.value}_"):
        raise InvalidField(field, f"not begin with {kind.value}_, as ids do", text)
    return uid


def check_event_type(text: object, field: str = "event_type") -> str:
    return _check_name(field, text, 256)


def check_channel(text: object, field: str = "channel") -> str:
    return _check_name(field, text, 128)


def check_breaker_key(text: object, field: str = "breaker_key") -> str:
    return _check_name(field, text, 128)


def _check_name(field: str, text: object, most: int) -> str:
    if not isinstance(text, str) or len(text) > most or not _NAME.fullmatch(text):
        raise InvalidField(field, f"be 1 to {most} letters, digits, dots, hyphens or underscores", text)
    return text
