"""Who waits for a place among the lookups, and who is next.

A crowd of names that hang comes again with every retry of their deliveries. So names that answered the last time go
first, then those never asked for, and those that hung go last.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from typing import Final

from hookfuse.transport.nameservers import Lookup

_PASSED_OVER: Final = 7
"""So often in a row who has waited longest is passed over, and no more, so that nobody waits for ever."""


class Standing(IntEnum):
    """How it went with a name the last time."""

    ANSWERED = 0
    UNKNOWN = 1
    HUNG = 2


class Line:
    """Lookups in the order of their standing, and those of one standing in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[Standing, OrderedDict[str, tuple[int, Lookup]]] = {each: OrderedDict() for each in Standing}
        self._came = count()
        self._passed_over = 0

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __contains__(self, name: str) -> bool:
        return any(name in waiting for waiting in self._waiting.values())

    def __iter__(self) -> Iterator[Lookup]:
        return (lookup for waiting in self._waiting.values() for _, lookup in waiting.values())

    def join(self, lookup: Lookup, standing: Standing) -> None:
        self._waiting[standing][lookup.name] = next(self._came), lookup

    def take(self) -> Lookup:
        """Let the next go; there has to be one."""
        waiting = [each for each in self._waiting.values() if each]
        oldest = min(waiting, key=_oldest)
        chosen = waiting[0] if self._passed_over < _PASSED_OVER else oldest
        self._passed_over = 0 if chosen is oldest else self._passed_over + 1
        return chosen.popitem(last=False)[1][1]

    def leave(self, name: str) -> None:
        for waiting in self._waiting.values():
            waiting.pop(name, None)

    def clear(self) -> None:
        for waiting in self._waiting.values():
            waiting.clear()


def _oldest(waiting: OrderedDict[str, tuple[int, Lookup]]) -> int:
    return next(iter(waiting.values()))[0]
