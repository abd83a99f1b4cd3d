"""Following the shards: load the indexes, then read the streams, for ever.

`follow` yields raw Redis commands to run together and gets their replies; the faces only carry them. It ends by
raising: `LostData` when the data is not the one it followed (a flush, another server), so that everything must be
loaded anew. After a lost connection it makes sure that what it has applied is still there: streams may have been
trimmed past its place, and a replica that took over may have missed the end of them.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from hookfuse.errors import StoreError
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.scripts import Includes, script
from hookfuse.stores.redis.verbs import Verbs, read_place

BLOCK_MS = 1_500
RETRY_SECONDS = 0.2
EVENTS_PER_READ = 1_000
TURNS_PER_PULSE = 8
NOWHERE = b"0-0"
"""The place before the first entry of a stream."""

Raw: TypeAlias = tuple[Any, ...]
Talk: TypeAlias = Generator[Any, list[Any], None]


class LostData(Exception):
    """What was followed is no longer there."""


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
        asked = time.monotonic()
        ((now, life),) = yield [self._pulse]
        if not self._places or life != self._life or (yield from self._replaced()):
            yield from self._load(range(len(self._streams)))
            self._life = life
        verbs.mirror.heard(int(now), asked)
        for turn in itertools.count(1):
            asked = time.monotonic()
            # The time is asked for now and then; that the data is still the same, every time.
            if turn % TURNS_PER_PULSE:
                life, events = yield [("HGET", verbs.keys.meta, "life"), self._read()]
                now_ms = None
            else:
                (now, life), events = yield [self._pulse, self._read()]
                now_ms = int(now)
            if life != self._life:
                raise LostData
            verbs.mirror.heard(now_ms, asked)
            self._apply_all(events)
            self._settle()

    def lose(self) -> None:
        """Forget the places, so that everything is loaded anew."""
        self._places = {}

    def _load(self, shards: Iterable[int]) -> Talk:
        """Positions first, then the indexes: what changes in between is read again from the streams."""
        keys = self._verbs.keys
        tops = yield from self._of_each(shards, lambda shard: ("XREVRANGE", keys.stream(shard), "+", "-", "COUNT", 1))
        places = {shard: top[0][0] if top else NOWHERE for shard, top in tops.items()}
        indexes = yield from self._of_each(places, lambda shard: ("HGETALL", keys.index(shard)))
        missed = yield from self._of_each(indexes, lambda shard: self._missed(shard, places[shard]))
        entries = {name.decode(): entry for shard in missed for name, entry in indexes[shard].items()}
        yield from self._prune(entries)
        self._places.update({shard: places[shard] for shard in missed})
        self._verbs.load({shard: read_place(places[shard])[0] for shard in missed}, entries)
        self._tell(missed)
        self._settle()

    def _prune(self, entries: dict[str, bytes]) -> Talk:
        """Leave out what is past its time."""
        for gone in (yield self._step([self._raw(call) for call in self._verbs.commands.prunes(entries)])):
            for name in () if isinstance(gone, Exception) else gone:
                entries.pop(name.decode(), None)

    def _missed(self, shard: int, place: bytes) -> Raw:
        """What a reload jumps over. It changes nothing, but observers hear of every transition once."""
        told = self._verbs.meet(shard, read_place(place)[0])
        return ("XRANGE", self._streams[shard], told + 1, place)

    def _tell(self, missed: Mapping[int, Sequence[Any]]) -> None:
        for shard, entries in missed.items():
            for place, fields in entries:
                # One that cannot be read was not written by us.
                with suppress(KeyError, ValueError):
                    self._verbs.announce(shard, place, fields)

    def _of_each(
        self, shards: Iterable[int], request: Callable[[int], Raw]
    ) -> Generator[Any, list[Any], dict[int, Any]]:
        """The reply of each shard, without those that gave none."""
        asked = list(shards)
        replies = yield self._step([request(shard) for shard in asked])
        return {shard: reply for shard, reply in zip(asked, replies, strict=True) if not isinstance(reply, Exception)}

    def _step(self, requests: list[Raw]) -> Any:
        """How to ask for these; what may fail alone is an error in its place."""
        return requests

    def _raw(self, call: Call) -> Raw:
        return ("EVAL", script(call.script, self._includes).source, len(call.keys), *call.keys, *call.args)

    def _replaced(self) -> Generator[list[Raw], list[Any], bool]:
        """Whether an event that we have applied is gone: trimmed, or never heard of by the replica that took over."""
        applied = {shard: place for shard, place in self._places.items() if place != NOWHERE}
        if not applied:
            return False
        found = yield [("XRANGE", self._streams[shard], place, place) for shard, place in applied.items()]
        return not all(found)

    def _read(self) -> Raw:
        places = (self._places[shard] for shard in range(len(self._streams)))
        return ("XREAD", "COUNT", EVENTS_PER_READ, "BLOCK", BLOCK_MS, "STREAMS", *self._streams, *places)

    def _apply_all(self, events: Any) -> None:
        for stream, entries in events.items() if isinstance(events, dict) else events or ():
            for page in entries if isinstance(events, dict) else [entries]:
                self._apply(self._shards[stream], page)

    def _apply(self, shard: int, entries: Sequence[Any]) -> None:
        for place, fields in entries:
            try:
                self._verbs.follow(shard, place, fields)
            except (KeyError, ValueError) as error:
                # Not written by us. The indexes tell what it may have hidden.
                raise LostData from error
            self._places[shard] = place

    def _settle(self) -> None:
        """Tell the observers, and those who wait for it, how far we are."""
        self._verbs.announcer.deliver()
        self._verbs.settled = [read_place(self._places.get(shard, NOWHERE)) for shard in range(len(self._streams))]
