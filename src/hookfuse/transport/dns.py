"""DNS messages as bytes: a question out, an answer in. Pure.

Only what a client needs: addresses, the aliases on the way to them, and how long they hold. An answer is read from
whoever could send it, so every length is checked, and work is bounded whatever it claims.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from ipaddress import IPv4Address, IPv6Address
from struct import Struct
from struct import error as StructError
from typing import Final

from hookfuse.core.addresses import Address

RECORDS: Final = 256
"""How many records of an answer are looked at. What lies beyond does not exist for us."""
ALIASES: Final = 8
"""How many CNAMEs are followed."""
_POINTERS: Final = 32

_HEADER: Final = Struct("!HHHHHH")
_QUESTION: Final = Struct("!HH")
_RECORD: Final = Struct("!HHIH")
_IN: Final = 1
_CNAME: Final = 5
_SOA: Final = 6

_RESPONSE: Final = 0x8000
_OPCODE: Final = 0x7800
_TRUNCATED: Final = 0x0200
_RECURSION: Final = 0x0100
_NXDOMAIN: Final = 3


class Kind(IntEnum):
    A = 1
    AAAA = 28


class NotAnAnswer(Exception):
    """These bytes are no answer to this question: malformed, forged, or meant for someone else."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a name server said."""

    addresses: tuple[Address, ...] = ()
    ttl: int = 0
    """Seconds that this holds; also for the answer that there is nothing."""
    code: int = 0
    truncated: bool = False
    """The whole answer must be asked for over TCP."""

    @property
    def missing(self) -> bool:
        """The name does not exist."""
        return self.code == _NXDOMAIN

    @property
    def refused(self) -> bool:
        """The server could not or would not answer."""
        return self.code not in (0, _NXDOMAIN)


def encode_name(name: str) -> bytes:
    """A name as it is written in a question; ValueError if it cannot be."""
    return b"".join([bytes((len(label),)) + label.encode("ascii") for label in name.split(".")]) + b"\0"


def question(encoded: bytes, kind: Kind, number: int) -> bytes:
    """The message that asks for one kind of address of a name."""
    return _HEADER.pack(number, _RECURSION, 1, 0, 0, 0) + encoded + _QUESTION.pack(kind, _IN)


def read_reply(data: bytes, name: str, kind: Kind, number: int) -> Reply:
    """Read the answer to `question(encode_name(name), kind, number)`, or raise NotAnAnswer."""
    try:
        return _read(data, name, kind, number)
    except (IndexError, ValueError, StructError) as error:
        raise NotAnAnswer("malformed") from error


def _read(data: bytes, name: str, kind: Kind, number: int) -> Reply:
    its_number, flags, questions, answers, authorities, _ = _HEADER.unpack_from(data)
    if its_number != number or not flags & _RESPONSE or flags & _OPCODE or questions != 1:
        raise NotAnAnswer("not to our question")
    asked, at = _name(data, _HEADER.size)
    if asked != name or _QUESTION.unpack_from(data, at) != (kind, _IN):
        raise NotAnAnswer("to another question")
    code = flags & 0xF
    if flags & _TRUNCATED:
        return Reply(code=code, truncated=True)
    records = _Records(data, at + _QUESTION.size)
    records.read(min(answers, RECORDS), kind)
    addresses, ttl = records.resolve(name)
    if not addresses:
        if answers <= RECORDS:
            records.read(min(authorities, RECORDS), kind)
        ttl = records.negative_ttl
    return Reply(addresses, ttl, code)


class _Records:
    """The records of a message, read one section after the other."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._addresses: dict[str, list[Address]] = {}
        self._aliases: dict[str, str] = {}
        self._ttls: dict[str, int] = {}
        self.negative_ttl = 0

    def read(self, count: int, kind: Kind) -> None:
        for _ in range(count):
            owner, at = _name(self._data, self._at)
            its_kind, its_class, ttl, size = _RECORD.unpack_from(self._data, at)
            begin = at + _RECORD.size
            self._at = begin + size
            if self._at > len(self._data):
                raise NotAnAnswer("cut off")
            if its_class == _IN:
                self._keep(owner, its_kind, ttl, begin, kind)

    def _keep(self, owner: str, its_kind: int, ttl: int, begin: int, kind: Kind) -> None:
        if its_kind == kind:
            content = self._data[begin : self._at]
            address = IPv4Address(content) if kind is Kind.A else IPv6Address(content)
            self._addresses.setdefault(owner, []).append(address)
        elif its_kind == _CNAME:
            self._aliases[owner] = _name(self._data, begin)[0]
        elif its_kind == _SOA:
            # What is not there holds as long as the last number of the zone's SOA record says, or its own ttl.
            self.negative_ttl = min(ttl, int.from_bytes(self._data[self._at - 4 : self._at]))
            return
        else:
            return
        self._ttls[owner] = min(ttl, self._ttls.get(owner, ttl))

    def resolve(self, name: str) -> tuple[tuple[Address, ...], int]:
        """The addresses at the end of a name's aliases, and the shortest time that any step holds."""
        ttl = self._ttls.get(name, 0)
        for _ in range(ALIASES):
            alias = self._aliases.get(name)
            if alias is None:
                break
            name = alias
            ttl = min(ttl, self._ttls.get(name, ttl))
        return tuple(dict.fromkeys(self._addresses.get(name, ()))), ttl


def _name(data: bytes, at: int) -> tuple[str, int]:
    """The name that begins here in lower case, and where what follows it begins."""
    labels: list[str] = []
    after = -1
    jumps = size = 0
    while length := data[at]:
        if length & 0xC0 == 0xC0:
            jumps += 1
            if jumps > _POINTERS:
                raise NotAnAnswer("a name that never ends")
            after = at + 2 if after < 0 else after
            at = (length & 0x3F) << 8 | data[at + 1]
            continue
        if length & 0xC0 or at + 1 + length > len(data):
            raise NotAnAnswer("a label of an unknown form")
        size += length + 1
        if size > 255:
            raise NotAnAnswer("a name that is too long")
        labels.append(data[at + 1 : at + 1 + length].decode("latin-1").lower())
        at += 1 + length
    return ".".join(labels), at + 1 if after < 0 else after
