"""Accepting a batch of messages: who wants them, one statement that stores them, a look at those that it did not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hookfuse.core.lanes import DAY_MS
from hookfuse.core.message import Accepted, Answer, NewMessage, Refused
from hookfuse.errors import StoreUnavailable
from hookfuse.stores.postgres.arrays import numbers, texts
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL

_IDLE_ROUNDS = 5
_FEW_TYPES = 4

Key = tuple[str, str]
Asked = tuple[int, NewMessage]
FanOut = Mapping[int, Sequence[str]]


def is_plain(messages: Iterable[NewMessage]) -> bool:
    """Whether one statement writes all: where a uid may be taken, the key of its message may have to go again."""
    return all(message.uid is None for message in messages)


async def accept(db: Connection, messages: Sequence[NewMessage]) -> list[Answer]:
    """Answers in the order of the messages, as if they had come one after the other."""
    batch = _Batch(db)
    waiting = list(enumerate(messages))
    idle = 0
    while waiting:
        before = len(batch.answers)
        await batch.round(waiting)
        waiting = [each for each in waiting if each[0] not in batch.answers]
        idle = idle + 1 if len(batch.answers) == before else 0
        if idle == _IDLE_ROUNDS:
            raise StoreUnavailable("Others kept taking and leaving the same idempotency keys; nothing was stored.")
    return [batch.answers[n] for n in range(len(messages))]


class _Batch:
    def __init__(self, db: Connection) -> None:
        self._db = db
        self.answers: dict[int, Answer] = {}

    async def round(self, waiting: Sequence[Asked]) -> None:
        """Store what can be stored; a key stands for one message in a round, the others find it taken."""
        routes = await self._db.fetch(SQL["accept_routes"], *_kinds(message for _, message in waiting))
        known = {row["app_id"] for row in routes}
        for n, message in waiting:
            if message.app_id not in known:
                self.answers[n] = Refused("unknown_application")
        first = _first_of_each_key(each for each in waiting if each[0] not in self.answers)
        if not first:
            return
        now = int(routes[0]["now"])
        fan_out = _fan_out(routes, first)
        keyed = await self._store(first, fan_out, now)
        left = [each for each in waiting if each[0] not in self.answers]
        if left:
            await self._not_stored(left, keyed)

    async def _store(self, asked: Sequence[Asked], fan_out: FanOut, now: int) -> set[int]:
        """Returns whose keys were free; even so a message is not stored if its uid is taken."""
        columns = (*_messages(asked), now, *_keys(asked, fan_out), DAY_MS, *_deliveries(asked, fan_out, now))
        free: set[str] = set()
        stored: set[str] = set()
        for id_, is_stored in await self._db.fetch(SQL["accept_messages"], *columns):
            (stored if is_stored else free).add(id_)
        for n, message in asked:
            if message.id in stored:
                self.answers[n] = Accepted(message.id, now, len(fan_out[n]))
        return {n for n, message in asked if message.id in free}

    async def _not_stored(self, left: Sequence[Asked], keyed: set[int]) -> None:
        # A new statement sees what those have committed whom the first one waited for.
        known = await self._known_keys(left)
        void = {key for n, message in left if n in keyed and (key := _key(message)) is not None}
        for n, message in left:
            key = _key(message)
            if key is None or n in keyed:
                self.answers[n] = Refused("uid_taken")
            elif key in known and key not in void:
                self.answers[n] = _repeated(message, known[key])
        if void:
            # Nothing was stored under these keys; they are free again for whoever comes next.
            await self._db.execute(SQL["accept_forget_keys"], *_columns(void))

    async def _known_keys(self, asked: Sequence[Asked]) -> dict[Key, Any]:
        keys = {key for _, message in asked if (key := _key(message)) is not None}
        if not keys:
            return {}
        rows = await self._db.fetch(SQL["accept_known_keys"], *_columns(keys))
        return {(row["app_id"], row["key"]): row for row in rows}


def _kinds(messages: Iterable[NewMessage]) -> tuple[list[str], list[str | None]]:
    """Applications, and the types of their messages; of many types all endpoints are asked for, that is cheaper."""
    types: dict[str, set[str]] = defaultdict(set)
    for message in messages:
        types[message.app_id].add(message.event_type)
    return list(types), [texts(list(each)) if len(each) <= _FEW_TYPES else None for each in types.values()]


def _fan_out(routes: Sequence[Any], asked: Sequence[Asked]) -> FanOut:
    """The endpoints of each message: those that want its type and one of its channels."""
    wanting: dict[tuple[str, str | None], list[tuple[str, list[str] | None]]] = defaultdict(list)
    for app_id, _, endpoint_id, event_types, channels in routes:
        if endpoint_id is not None:
            for event_type in (None,) if event_types is None else set(event_types):
                wanting[app_id, event_type].append((endpoint_id, channels))
    return {
        n: [
            endpoint_id
            for event_type in (None, message.event_type)
            for endpoint_id, channels in wanting[message.app_id, event_type]
            if channels is None or not set(message.channels).isdisjoint(channels)
        ]
        for n, message in asked
    }


def _repeated(message: NewMessage, known: Any) -> Answer:
    if known["fingerprint"] != message.fingerprint:
        return Refused("idempotency_mismatch")
    return Accepted(known["message_id"], known["created_ms"], known["deliveries"], repeated=True)


def _first_of_each_key(asked: Iterable[Asked]) -> list[Asked]:
    chosen: dict[object, Asked] = {}
    for n, message in asked:
        chosen.setdefault(_key(message) or n, (n, message))
    return list(chosen.values())


def _key(message: NewMessage) -> Key | None:
    return None if message.idempotency_key is None else (message.app_id, message.idempotency_key)


def _columns(keys: Iterable[Key]) -> tuple[list[str], list[str]]:
    pairs = list(keys)
    return [app_id for app_id, _ in pairs], [key for _, key in pairs]


def _messages(asked: Sequence[Asked]) -> tuple[Any, ...]:
    messages = [message for _, message in asked]
    return (
        texts([each.id for each in messages]),
        texts([each.app_id for each in messages]),
        texts([each.uid for each in messages]),
        texts([each.event_type for each in messages]),
        # Arrays of different lengths do not fit into one array.
        texts([texts(each.channels) for each in messages]),
        numbers(each.deliver_ms for each in messages),
        [each.payload for each in messages],
    )


def _keys(asked: Sequence[Asked], fan_out: FanOut) -> tuple[Any, ...]:
    return (
        texts([message.idempotency_key for _, message in asked]),
        [message.fingerprint for _, message in asked],
        numbers(len(fan_out[n]) for n, _ in asked),
    )


def _deliveries(asked: Sequence[Asked], fan_out: FanOut, now: int) -> tuple[str, ...]:
    made = [
        (message.id, endpoint_id, message.app_id, max(message.deliver_ms or now, now))
        for n, message in asked
        for endpoint_id in fan_out[n]
    ]
    return (
        texts([each[0] for each in made]),
        texts([each[1] for each in made]),
        texts([each[2] for each in made]),
        numbers(each[3] for each in made),
    )
