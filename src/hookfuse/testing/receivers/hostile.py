"""What endpoints do that are broken, or mean harm: nothing of it may cost a sender more than its deadline."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from hookfuse.testing.receivers.answers import FOREVER, Answer, Ending, Step, Stream, response
from hookfuse.testing.receivers.behaviours import checked

_KIB, _MIB, _GIB = 1 << 10, 1 << 20, 1 << 30
_CHUNK = bytes(64 * _KIB)
_MEMBER_SIZE = 16 * _MIB
# Long enough for what was written before to leave the machine.
_MOMENT = 0.02


@dataclass(frozen=True, slots=True)
class Dead:
    """Refuses connections. On a port that it shares with others it resets them, as soon as it is called by name."""

    def begin(self) -> Answer:
        return Answer(None, (), Ending.RESET)


@dataclass(frozen=True, slots=True)
class Hang:
    """Takes the request and never answers."""

    def begin(self) -> Answer:
        return Answer(None, (FOREVER,))


@dataclass(frozen=True, slots=True)
class Reset:
    """Resets the connection in the middle of its response, or instead of one."""

    in_response: bool = True

    def begin(self) -> Answer:
        part = (response(200, size=1000) + b"part", _MOMENT) if self.in_response else ()
        return Answer(None, part, Ending.RESET)


@dataclass(frozen=True, slots=True)
class Malformed:
    """Says something that is not HTTP, or not all of it, and hangs up."""

    data: bytes = b"HTTP/1.1 two hundred\r\nno colon here\r\n\r\n"

    def begin(self) -> Answer:
        return Answer(None, (self.data,), Ending.CLOSE)


@dataclass(frozen=True, slots=True)
class DripHeaders:
    """Sends headers byte by byte and never comes to their end."""

    interval: float = 0.1

    def __post_init__(self) -> None:
        checked("interval", self.interval, 0, 86_400)

    def begin(self) -> Answer:
        return Answer(None, Stream(self._steps))

    def _steps(self) -> Iterator[Step]:
        yield b"HTTP/1.1 200 OK\r\n"
        while True:
            for byte in b"x-drip: drop\r\n":
                yield self.interval
                yield bytes((byte,))


@dataclass(frozen=True, slots=True)
class DripBody:
    """Sends its headers at once and then a body byte by byte."""

    interval: float = 0.1
    size: int = _GIB

    def __post_init__(self) -> None:
        checked("interval", self.interval, 0, 86_400)
        checked("size", self.size, 0, 1 << 60)

    def begin(self) -> Answer:
        return Answer(None, Stream(self._steps))

    def _steps(self) -> Iterator[Step]:
        yield response(200, size=self.size)
        for _ in range(self.size):
            yield self.interval
            yield b"."


@dataclass(frozen=True, slots=True)
class Huge:
    """Answers well, with a body that nobody should read to its end."""

    size: int = 10 * _GIB

    def __post_init__(self) -> None:
        checked("size", self.size, 0, 1 << 60)

    def begin(self) -> Answer:
        return Answer(200, Stream(self._steps))

    def _steps(self) -> Iterator[Step]:
        yield response(200, size=self.size)
        for _ in range(self.size // len(_CHUNK)):
            yield _CHUNK
        if rest := self.size % len(_CHUNK):
            yield _CHUNK[:rest]


@dataclass(frozen=True, slots=True)
class Bomb:
    """A gzip body that grows a thousandfold for whoever unpacks it."""

    size: int = 10 * _GIB
    """Unpacked; rounded up to whole members of 16 MiB."""

    def __post_init__(self) -> None:
        checked("size", self.size, 1, 1 << 60)

    def begin(self) -> Answer:
        return Answer(200, Stream(self._steps))

    def _steps(self) -> Iterator[Step]:
        # A gzip file may have many members, and all of ours are the same.
        member, count = _member(), -(-self.size // _MEMBER_SIZE)
        yield response(200, [("content-encoding", "gzip")], size=len(member) * count)
        for _ in range(count):
            yield member


@cache
def _member() -> bytes:
    return gzip.compress(bytes(_MEMBER_SIZE))


@dataclass(frozen=True, slots=True)
class BigHeader:
    """Answers with one header that is longer than a client should read."""

    size: int = _MIB

    def __post_init__(self) -> None:
        checked("size", self.size, 0, _GIB)

    def begin(self) -> Answer:
        return Answer(None, (response(200, [("x-big", "a" * self.size)]),))
