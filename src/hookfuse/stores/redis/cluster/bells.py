"""Listening to the bells of the shards: which ears are needed, and what they hear. Nothing here does I/O.

An ear is one connection to a primary, subscribed to the bells of the shards that it serves. It is asked for a sign of
life now and then: the answer comes after every bell that rang before, so nothing that happened until then is unheard.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import redis
from redis.crc import key_slot

from hookfuse.stores.redis.cluster.routes import PAUSE_SECONDS, Node, Routes
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.tail import Raw

_log = logging.getLogger("hookfuse")

PING_SECONDS = 0.7
"""Two of them may get lost before a mirror has to stop answering."""
_DEAF_SECONDS = 1.0


class Heard(NamedTuple):
    rung: frozenset[int]
    """Shards whose bell rang, or that are listened to only now."""
    alive: tuple[frozenset[int], ...]
    """The shards of each primary that gave a sign of life after that."""


class Ear:
    """What one primary tells."""

    def __init__(self, node: Node, shards: frozenset[int], keys: Keys) -> None:
        self.node = node
        self.shards = shards
        self._bells = {keys.bell(shard).encode(): shard for shard in shards}
        self._greeted = False
        self._pinged_at = 0.0
        self._waiting = False
        self.rung: set[int] = set()
        self.alive = False

    def to_send(self) -> list[Raw]:
        """What is due now. Each bell is subscribed to by itself, because one command may not span slots."""
        now = time.monotonic()
        if self._waiting or now < self._pinged_at + PING_SECONDS:
            return []
        greeting: list[Raw] = [] if self._greeted else [("SSUBSCRIBE", bell) for bell in self._bells]
        self._greeted = True
        self._waiting = True
        self._pinged_at = now
        return [*greeting, ("PING",)]

    @property
    def due_in(self) -> float:
        """Seconds until something is to be sent, or an answer is overdue."""
        wait = _DEAF_SECONDS if self._waiting else PING_SECONDS
        return self._pinged_at + wait - time.monotonic()

    @property
    def deaf(self) -> bool:
        return self._waiting and self.due_in <= 0

    def hear(self, push: Sequence[Any]) -> None:
        kind = push[0]
        if kind in (b"smessage", b"ssubscribe"):
            self.rung.add(self._bells[push[1]])
        elif kind == b"pong":
            self.alive = True
            self._waiting = False
        elif kind == b"sunsubscribe":
            raise redis.exceptions.ConnectionError(f"{self.node} no longer serves all its shards")


class Ears:
    """All ears of a process, by the node that they listen to."""

    def __init__(self, keys: Keys, routes: Routes) -> None:
        self._keys = keys
        self._routes = routes
        self._slots = [key_slot(keys.bell(shard).encode()) for shard in range(keys.shards)]
        self._wanted: dict[Node, frozenset[int]] = {}
        self._version = -1
        self._not_before: dict[Node, float] = {}
        self._refused = False
        self.open: dict[Node, Ear] = {}

    def part(self, key: str) -> str:
        """The name of the primary at which the bell of a key hangs."""
        node = self._routes.primary(self._slots[self._keys.shard(key)])
        return "Redis" if node is None else f"Redis at {node}"

    def surplus(self) -> list[Ear]:
        """Those that listen where a bell is no longer, or that hear nothing any more."""
        self._read_routes()
        return [ear for ear in self.open.values() if ear.deaf or self._wanted.get(ear.node) != ear.shards]

    def missing(self) -> list[Ear]:
        """Those to open, so that every bell is heard where it hangs."""
        self._read_routes()
        now = time.monotonic()
        return [
            Ear(node, shards, self._keys)
            for node, shards in self._wanted.items()
            if node not in self.open and now >= self._not_before.get(node, 0.0)
        ]

    def lose(self, ear: Ear, error: Exception | None = None) -> None:
        """An ear hears no more: its connection is gone, or the bells hang elsewhere."""
        if isinstance(error, redis.exceptions.NoPermissionError) and not self._refused:
            self._refused = True
            _log.warning("Redis refuses to tell of changes, so every call asks it: %s.", error)
        self.open.pop(ear.node, None)
        self._not_before[ear.node] = time.monotonic() + PAUSE_SECONDS
        self._routes.doubt()

    def due_in(self, patience: float) -> float:
        """How long to wait for something to be heard, at most."""
        if len(self.open) < len(self._wanted):
            patience = min(patience, PAUSE_SECONDS)
        return max(0.0, min([patience, *(ear.due_in for ear in self.open.values())]))

    def collect(self) -> Heard:
        """Everything that was heard since the last time."""
        rung: set[int] = set()
        alive = []
        for ear in self.open.values():
            rung |= ear.rung
            ear.rung = set()
            if ear.alive:
                alive.append(ear.shards)
                ear.alive = False
        return Heard(frozenset(rung), tuple(alive))

    def _read_routes(self) -> None:
        if self._version == self._routes.version:
            return
        self._version = self._routes.version
        shards: dict[Node, set[int]] = {}
        for shard, slot in enumerate(self._slots):
            node = self._routes.primary(slot)
            if node is not None:
                shards.setdefault(node, set()).add(shard)
        self._wanted = {node: frozenset(held) for node, held in shards.items()}
