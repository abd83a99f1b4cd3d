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
from collections.abc import Generator
from typing import Any, TypeAlias

from hookfuse.errors import StoreError
from hookfuse.stores.redis.scripts import Includes, script
from hookfuse.stores.redis.verbs import Verbs, read_place

BLOCK_MS = 1_500
RETRY_SECONDS = 0.2
FLUSH_SECONDS = 0.003
SHARDS_AT_ONCE = 8
_LONGEST_PAUSE = 0.1
_EVENTS_PER_READ = 1_000
_TURNS_PER_PULSE = 8
_NOWHERE = b"0-0"

Raw: TypeAlias = tuple[Any, ...]
Talk: TypeAlias = Generator[list[Raw], list[Any], None]


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
        self._pulse: Raw = ("EVAL", script("pulse", includes).source, 1, verbs.keys.meta)
        self._streams = [verbs.keys.stream(shard) for shard in range(verbs.keys.shards)]
        self._shards = {stream.encode(): shard for shard, stream in enumerate(self._streams)}
        self._places: list[bytes] = []
        self._life = b""
        self._first = True

    def follow(self) -> Talk:
        verbs = self._verbs
        yield from check_meta(verbs)
        asked = time.monotonic()
        (pulse,) = yield [self._pulse]
        if not self._places or pulse[1] != self._life or (yield from self._replaced()):
            yield from self._load(pulse[1])
        verbs.mirror.heard(int(pulse[0]), asked)
        for turn in itertools.count(1):
            asked = time.monotonic()
            # The time is asked for now and then; that the data is still the same, every time.
            if turn % _TURNS_PER_PULSE:
                life, events = yield [("HGET", verbs.keys.meta, "life"), self._read()]
                now_ms = None
            else:
                (now, life), events = yield [self._pulse, self._read()]
                now_ms = int(now)
            if life != self._life:
                raise LostData
            verbs.mirror.heard(now_ms, asked)
            self._apply(events)
            verbs.announcer.deliver()
            verbs.settled = [read_place(place) for place in self._places]

    def lose(self) -> None:
        """Forget the places, so that everything is loaded anew."""
        self._places = []

    def _load(self, life: bytes) -> Generator[list[Raw], list[Any], None]:
        """Positions first, then the indexes: what changes in between is read again from the streams."""
        tops = yield [("XREVRANGE", stream, "+", "-", "COUNT", 1) for stream in self._streams]
        indexes = yield [("HGETALL", self._verbs.keys.index(shard)) for shard in range(len(self._streams))]
        self._places = [top[0][0] if top else _NOWHERE for top in tops]
        positions = [int(place.split(b"-")[0]) for place in self._places]
        self._verbs.load(positions, indexes, first=self._first)
        if not self._first:
            yield from self._tell_missed()
        self._life = life
        self._first = False
        self._verbs.settled = [read_place(place) for place in self._places]

    def _tell_missed(self) -> Generator[list[Raw], list[Any], None]:
        """Observers hear of every transition once, and so of those too that a reload has jumped over."""
        verbs = self._verbs
        missed = yield [
            ("XRANGE", stream, verbs.told(shard) + 1, self._places[shard]) for shard, stream in enumerate(self._streams)
        ]
        for shard, entries in enumerate(missed):
            for place, fields in entries:
                try:
                    verbs.announce(shard, place, fields)
                except (KeyError, ValueError):
                    # Not written by us.
                    continue
        verbs.announcer.deliver()

    def _replaced(self) -> Generator[list[Raw], list[Any], bool]:
        """Whether an event that we have applied is gone: trimmed, or never heard of by the replica that took over."""
        applied = [each for each in zip(self._streams, self._places, strict=True) if each[1] != _NOWHERE]
        if not applied:
            return False
        found = yield [("XRANGE", stream, place, place) for stream, place in applied]
        return not all(found)

    def _read(self) -> Raw:
        return ("XREAD", "COUNT", _EVENTS_PER_READ, "BLOCK", BLOCK_MS, "STREAMS", *self._streams, *self._places)

    def _apply(self, events: Any) -> None:
        for stream, entries in events.items() if isinstance(events, dict) else events or ():
            shard = self._shards[stream]
            for page in entries if isinstance(events, dict) else [entries]:
                for place, fields in page:
                    try:
                        self._verbs.follow(shard, place, fields)
                    except (KeyError, ValueError) as error:
                        # Not written by us. The indexes tell what it may have hidden.
                        raise LostData from error
                    self._places[shard] = place
