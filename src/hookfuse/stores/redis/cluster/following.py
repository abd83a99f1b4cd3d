"""Following the shards of a cluster: wait for their bells, then look at what rang.

A look reads a stream from this process's place on, that entry included. If it is no longer there, the shard has lost
its data and is loaded anew. A primary has been heard of when it gave a sign of life and everything that rang there was
read. With each sign of life a shard or two are looked at that did not ring, so that lost data is found, and so is an
event that rang elsewhere because its slot was being moved.

Shards are loaded and read each by itself, so that those of a primary that is away hold up no others.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from typing import Any, NamedTuple

from hookfuse.stores.redis.cluster.bells import PING_SECONDS, Heard
from hookfuse.stores.redis.cluster.routes import PAUSE_SECONDS
from hookfuse.stores.redis.scripts import Includes
from hookfuse.stores.redis.tail import EVENTS_PER_READ, NOWHERE, TURNS_PER_PULSE, Follower, LostData, Raw, check_meta
from hookfuse.stores.redis.verbs import Verbs


class Wait(NamedTuple):
    """Wait until a bell rings, but no longer than so many seconds."""

    seconds: float


class Each(NamedTuple):
    """Ask all of these; what fails is an error in its place."""

    requests: list[Raw]


class ClusterFollower(Follower):
    """Yields raw commands that must all succeed, or `Each`, or `Wait`, which gets what was `Heard`."""

    def __init__(self, verbs: Verbs, includes: Includes) -> None:
        super().__init__(verbs, includes)
        self._unread: set[int] = set()
        self._signs = 0
        self._looked_at = [0] * verbs.keys.shards

    def follow(self) -> Generator[Any, Any, None]:
        yield from check_meta(self._verbs)
        asked = time.monotonic()
        ((now, self._life),) = yield [self._pulse]
        self._verbs.mirror.heard(int(now), asked, ())
        patience = 0.0
        while True:
            heard: Heard = yield Wait(patience)
            self._unread |= heard.rung
            missing = self._unread - self._places.keys()
            if missing:
                yield from self._load(sorted(missing))
            patience = yield from self._look_around(heard)

    def lose(self) -> None:
        """The data may be another one: look at everything."""
        self._unread = set(self._shards.values())

    def _look_around(self, heard: Heard) -> Generator[Each, list[Any], float]:
        """Read what is to be read; returns how long the next turn may wait."""
        self._signs += len(heard.alive)
        looks = sorted({*self._unread, *self._witnesses(heard)} & self._places.keys())
        pulse = [self._pulse] if self._signs % TURNS_PER_PULSE < len(heard.alive) else []
        asked = time.monotonic()
        replies = yield Each([*(self._look(shard) for shard in looks), *pulse])
        now_ms = self._read_pulse(replies.pop()) if pulse else None
        self._unread -= self._places.keys()
        more = self._read_all(looks, replies)
        for part in heard.alive:
            if part.isdisjoint(self._unread):
                self._verbs.mirror.heard(now_ms, asked, part)
        self._settle()
        return 0.0 if more else PAUSE_SECONDS if self._unread else PING_SECONDS

    def _step(self, requests: list[Raw]) -> Each:
        return Each(requests)

    def _look(self, shard: int) -> Raw:
        return ("XRANGE", self._streams[shard], self._places[shard], "+", "COUNT", EVENTS_PER_READ)

    def _witnesses(self, heard: Heard) -> Iterator[int]:
        """Of each part the shard that was not looked at for longest, and of those where something has been."""
        for part in heard.alive:
            yield min(part, key=self._looked_at.__getitem__)
            known = [shard for shard in part if self._places.get(shard, NOWHERE) != NOWHERE]
            if known:
                yield min(known, key=self._looked_at.__getitem__)

    def _read_all(self, looks: list[int], replies: list[Any]) -> bool:
        """Apply what was read; returns whether there is more to read at once."""
        more = False
        for shard, entries in zip(looks, replies, strict=True):
            self._looked_at[shard] = self._signs
            if isinstance(entries, Exception):
                self._unread.add(shard)
                continue
            try:
                self._apply(shard, self._new_ones(shard, entries))
            except LostData:
                # Seldom is it only this one.
                del self._places[shard]
                self.lose()
                more = True
                continue
            if len(entries) == EVENTS_PER_READ:
                self._unread.add(shard)
                more = True
        return more

    def _new_ones(self, shard: int, entries: list[Any]) -> list[Any]:
        """What follows on our place, of which a look reads the entry, too."""
        place = self._places[shard]
        if place == NOWHERE:
            return entries
        if not entries or entries[0][0] != place:
            raise LostData
        return entries[1:]

    def _read_pulse(self, reply: Any) -> int | None:
        if isinstance(reply, Exception):
            return None
        now, life = reply
        if life != self._life:
            raise LostData
        return int(now)
