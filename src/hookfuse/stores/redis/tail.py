"""Following the shards: load the indexes, then read the streams, for ever.

`follow` yields raw Redis commands to run together and gets their replies; the faces only carry them. It ends by
raising: `LostData` when the data is not the one it followed (a flush, another server) or the streams were trimmed
past its place, so that everything must be loaded anew.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Generator, Sequence
from typing import Any, TypeAlias

from hookfuse.errors import StoreError
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.scripts import Includes, script
from hookfuse.stores.redis.verbs import Verbs, read_place

BLOCK_MS = 1_500
RETRY_SECONDS = 0.2
FLUSH_SECONDS = 0.003
_LONGEST_PAUSE = 0.1
EVENTS_PER_READ = 1_000
TURNS_PER_PULSE = 8
NOWHERE = b"0-0"
"""The place before the first entry of a stream."""

Raw: TypeAlias = tuple[Any, ...]
Talk: TypeAlias = Generator[Any, list[Any], None]


class LostData(Exception):
    """What was followed is no longer there."""


def next_pause(took: float) -> float:
    """How long to buffer after a flush that took so long: flushing shall not take more than a tenth of the time."""
    return min(max(FLUSH_SECONDS, 9 * took), _LONGEST_PAUSE)


def check_meta(verbs: Verbs) -> Talk:
    """Write down the number of shards, or compare with what is written."""
    meta, shards = verbs.keys.meta, verbs.keys.shards
    _, _, stored = yield [
        ("HSETNX", meta, "shards", shards),
        ("HSETNX", meta, "life", uuid.uuid4().hex),
        ("HGET", meta, "shards"),
    ]
    if int(stored) != shards:
        raise StoreError(
            f"This Redis holds breakers in {int(stored)} shards, and this process was told {shards}. "
            f"Use shards={int(stored)}, or another prefix."
        )


class Follower:
    """One life of a mirror: its place in every stream, kept over lost connections."""

    def __init__(self, verbs: Verbs, includes: Includes) -> None:
        self._verbs = verbs
        self._includes = includes
        self._pulse = self._raw(verbs.commands.pulse())
        self._streams = [verbs.keys.stream(shard) for shard in range(verbs.keys.shards)]
        self._shards = {stream.encode(): shard for shard, stream in enumerate(self._streams)}
        self._places: dict[int, bytes] = {}
        self._life = b""

    def follow(self) -> Talk:
        verbs = self._verbs
        yield from check_meta(verbs)
        ((now, life),) = yield [self._pulse]
        if not self._places or life != self._life or (yield from self._trimmed()):
            yield from self._load(range(len(self._streams)))
            self._life = life
            verbs.mirror.heard(int(now))
        for turn in itertools.count(1):
            # The time is asked for now and then; that the data is still the same, every time.
            if turn % TURNS_PER_PULSE:
                life, events = yield [("HGET", verbs.keys.meta, "life"), self._read()]
                now_ms = None
            else:
                (now, life), events = yield [self._pulse, self._read()]
                now_ms = int(now)
            if life != self._life:
                raise LostData
            verbs.mirror.heard(now_ms)
            self._apply_all(events)
            self._settle()

    def lose(self) -> None:
        """Forget the places, so that everything is loaded anew."""
        self._places = {}

    def _load(self, shards: Sequence[int]) -> Talk:
        """Positions first, then the indexes: what changes in between is read again from the streams."""
        keys = self._verbs.keys
        tops = yield self._step([("XREVRANGE", self._streams[shard], "+", "-", "COUNT", 1) for shard in shards])
        indexes = yield self._step([("HGETALL", keys.index(shard)) for shard in shards])
        places = {}
        entries = {}
        for shard, top, index in zip(shards, tops, indexes, strict=True):
            if not isinstance(top, Exception) and not isinstance(index, Exception):
                places[shard] = top[0][0] if top else NOWHERE
                entries.update({name.decode(): entry for name, entry in index.items()})
        for gone in (yield self._step([self._raw(call) for call in self._verbs.commands.prunes(entries)])):
            for name in () if isinstance(gone, Exception) else gone:
                entries.pop(name.decode(), None)
        self._places.update(places)
        self._verbs.load({shard: read_place(place)[0] for shard, place in places.items()}, entries)
        self._settle()

    def _step(self, requests: list[Raw]) -> Any:
        """How to ask for these; what may fail alone is an error in its place."""
        return requests

    def _raw(self, call: Call) -> Raw:
        return ("EVAL", script(call.script, self._includes).source, len(call.keys), *call.keys, *call.args)

    def _trimmed(self) -> Generator[list[Raw], list[Any], bool]:
        """Whether a stream ends below our place, or has lost events after it."""
        heads = yield [("XRANGE", stream, "-", "+", "COUNT", 1) for stream in self._streams]
        tops = yield self._verbs.ask_tops()
        for shard, (head, top) in enumerate(zip(heads, tops, strict=True)):
            mine = read_place(self._places[shard])
            if (read_place(top[0][0]) if top else (0, 0)) < mine:
                return True
            if head and (0, 0) != mine < read_place(head[0][0]):
                return True
        return False

    def _read(self) -> Raw:
        places = (self._places[shard] for shard in range(len(self._streams)))
        return ("XREAD", "COUNT", EVENTS_PER_READ, "BLOCK", BLOCK_MS, "STREAMS", *self._streams, *places)

    def _apply_all(self, events: Any) -> None:
        for stream, entries in events.items() if isinstance(events, dict) else events or ():
            for page in entries if isinstance(events, dict) else [entries]:
                self._apply(self._shards[stream], page)

    def _apply(self, shard: int, entries: Sequence[Any]) -> None:
        for place, fields in entries:
            self._verbs.follow(shard, place, fields)
            self._places[shard] = place

    def _settle(self) -> None:
        """Tell the observers, and those who wait for it, how far we are."""
        self._verbs.announcer.deliver()
        self._verbs.settled = [read_place(self._places.get(shard, NOWHERE)) for shard in range(len(self._streams))]
