"""What goes back over a connection, as a value: bytes and pauses in turn, and an ending."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import TypeAlias

Step: TypeAlias = bytes | float
"""Bytes to write, or seconds to wait."""

FOREVER = math.inf

_PHRASES = {status.value: status.phrase for status in HTTPStatus}


class Ending(StrEnum):
    """What becomes of the connection."""

    KEEP = "keep"
    """It stays open for the next request, if the client wants that."""
    CLOSE = "close"
    RESET = "reset"
    """The client gets RST instead of an orderly end."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A whole request. Receivers that only count leave out headers and body."""

    endpoint: str
    arrived_at: float
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name; the last one counts."""
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer; the steps may be walked any number of times."""

    status: int | None
    """What a client sees that waits for the whole answer; None where that never comes."""
    steps: Iterable[Step] = ()
    ending: Ending = Ending.KEEP

    @property
    def at_once(self) -> bytes | None:
        """The whole answer, if it needs no waiting and leaves the connection open."""
        if isinstance(self.steps, tuple) and len(self.steps) == 1 and self.ending is Ending.KEEP:
            only = self.steps[0]
            return only if isinstance(only, bytes) else None
        return None


Answerer: TypeAlias = Callable[[Arrival], Answer]


@dataclass(frozen=True, slots=True)
class Stream:
    """Steps that are made while they are walked, so that a long answer takes no memory."""

    make: Callable[[], Iterator[Step]]

    def __iter__(self) -> Iterator[Step]:
        return self.make()


def response(status: int, headers: Iterable[tuple[str, str]] = (), body: bytes = b"", *, size: int = -1) -> bytes:
    """A response in bytes; `size` announces a body that is sent apart from it."""
    lines = [f"HTTP/1.1 {status} {_PHRASES.get(status, '')}", *(f"{name}: {value}" for name, value in headers)]
    # A 204 must not announce a length.
    if status != HTTPStatus.NO_CONTENT:
        lines.append(f"content-length: {len(body) if size < 0 else size}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body
