"""What the system says about names: its name servers, and its hosts file. Both are read again when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic
from typing import Final, Generic, TypeVar

from hookfuse.core.addresses import Address, parse_address

T = TypeVar("T")

_LOOK_EVERY: Final = 5.0
_NAME_SERVERS: Final = 3


class WatchedFile(Generic[T]):
    """A small text file as a value, `parse` of nothing if it cannot be read."""

    def __init__(self, path: Path, parse: Callable[[str], T]) -> None:
        self._path = path
        self._parse = parse
        self._seen: tuple[int, int] | None = None
        self._look_at = 0.0
        self._value = parse("")

    def value(self) -> T:
        now = monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY
            self._look()
        return self._value

    def _look(self) -> None:
        try:
            status = self._path.stat()
            seen = (status.st_mtime_ns, status.st_ino)
            if seen != self._seen:
                self._value = self._parse(self._path.read_text(encoding="utf-8", errors="replace"))
                self._seen = seen
        except OSError:
            pass  # what was known before still holds


def parse_nameservers(text: str) -> tuple[tuple[str, int], ...]:
    """The name servers of a resolv.conf; without any, the one of this machine, as the C library does it."""
    found = [words[1] for words in _words(text) if len(words) > 1 and words[0] == "nameserver"]
    return tuple((address, 53) for address in found[:_NAME_SERVERS]) or (("127.0.0.1", 53),)


def parse_hosts(text: str) -> dict[str, tuple[Address, ...]]:
    """The addresses of each name in a hosts file."""
    found: dict[str, tuple[Address, ...]] = {}
    for first, *names in _words(text):
        address = parse_address(first)
        if address is not None:
            for name in names:
                found[name.lower()] = (*found.get(name.lower(), ()), address)
    return found


def _words(text: str) -> Iterator[list[str]]:
    """The words of every line that has some, without comments."""
    for line in text.splitlines():
        words = line.partition("#")[0].partition(";")[0].split()
        if words:
            yield words
