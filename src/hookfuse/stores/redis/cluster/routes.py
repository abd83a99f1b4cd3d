"""Which node serves which slot, as far as this process knows. Nothing here does I/O."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

PAUSE_SECONDS = 0.2
"""How long a node that did not answer is left alone, and the least time between two readings of the slots."""


class Node(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


Remap: TypeAlias = Callable[[tuple[str, int]], tuple[str, int]]
"""From the address by which the cluster knows a node to the one by which it is reached from here."""


class _Range(NamedTuple):
    first: int
    last: int
    primary: Node


class Routes:
    """Safe to use from several threads: whatever changes is replaced as a whole."""

    def __init__(self, seeds: Sequence[Node], remap: Remap | None = None) -> None:
        self._seeds = list(seeds)
        self._remap = remap
        self._ranges: list[_Range] = []
        self._moved: dict[int, Node] = {}
        self._away: dict[Node, tuple[float, Exception]] = {}
        self._doubtful = True
        self._read_at = float("-inf")
        self._readings = 0
        self.version = 0
        """Grows with every change of what is known."""

    @property
    def known(self) -> bool:
        return bool(self._ranges)

    @property
    def nodes(self) -> set[Node]:
        return {*self._seeds, *(each.primary for each in self._ranges), *self._moved.values()}

    def primary(self, slot: int) -> Node | None:
        """The node that serves a slot; None: nobody does."""
        moved = self._moved.get(slot)
        if moved is not None:
            return moved
        ranges = self._ranges
        place = bisect_right(ranges, slot, key=lambda each: each.first) - 1
        return ranges[place].primary if place >= 0 and slot <= ranges[place].last else None

    def moved(self, slot: int, host: str, port: int, asked: Node) -> Node:
        """A node says that another one serves a slot."""
        node = self.reached(host, port, asked)
        if self.primary(slot) != node:
            self._moved = {**self._moved, slot: node}
            self.version += 1
        self._doubtful = True
        return node

    def reached(self, host: str, port: int, asked: Node) -> Node:
        """A node as another one names it; without a name it is that of the one who was asked."""
        address = (host if host not in ("", "?") else asked.host, port)
        return Node(*(self._remap(address) if self._remap is not None else address))

    def doubt(self) -> None:
        """Something is not where it was thought to be; the slots are to be read anew."""
        self._doubtful = True

    def begin_reading(self) -> bool:
        """Whether the caller shall read the slots now, before it goes on."""
        now = time.monotonic()
        if self.known and (not self._doubtful or now < self._read_at + PAUSE_SECONDS):
            return False
        self._read_at = now
        self._readings += 1
        return True

    def candidates(self) -> list[Node]:
        """Whom to ask for the slots: not always the same first, and those that are away last."""
        nodes = sorted(self.nodes)
        start = self._readings % len(nodes)
        return sorted(nodes[start:] + nodes[:start], key=lambda node: self.away(node) is not None)

    def learn(self, reply: Sequence[Any], asked: Node) -> None:
        """Take over what CLUSTER SLOTS says."""
        found = []
        for first, last, (host, port, *_), *_ in reply:
            name = host.decode() if isinstance(host, bytes) else host or ""
            found.append(_Range(int(first), int(last), self.reached(name, int(port), asked)))
        self._ranges = sorted(found)
        self._moved = {}
        self._doubtful = False
        self.version += 1

    def lost(self, node: Node, error: Exception) -> None:
        """A node did not answer."""
        self._away[node] = (time.monotonic() + PAUSE_SECONDS, error)
        self._doubtful = True

    def met(self, node: Node) -> None:
        if self._away:
            self._away.pop(node, None)

    def away(self, node: Node) -> Exception | None:
        """Why a node is left alone for now."""
        until, error = self._away.get(node, (0.0, None))
        return error if time.monotonic() < until else None
