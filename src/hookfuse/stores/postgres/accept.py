"""Accepting a batch of messages: who wants them, one statement that stores them, a look at those that it did not.

Who wants them is known from the last time, as a rule. The statement asks whether that is still true, so a message goes
to every endpoint that was there when it was accepted, whichever process added it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hookfuse.core.lanes import DAY_MS
from hookfuse.core.message import Accepted, Answer, NewMessage, Refused
from hookfuse.errors import StoreUnavailable
from hookfuse.stores.postgres.arrays import numbers, texts
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL

_IDLE_ROUNDS = 5
_MOST_ROUTES = 100_000

Key = tuple[str, str]
Asked = tuple[int, NewMessage]
FanOut = Mapping[int, Sequence[str]]


class _Route(NamedTuple):
    endpoint_id: str
    channels: frozenset[str] | None

    def takes(self, message: NewMessage) -> bool:
        return self.channels is None or not self.channels.isdisjoint(message.channels)


class _Known(NamedTuple):
    """The endpoints that want messages of an application, by their types. With them changes the number."""

    number: int
    types: dict[str, list[_Route]]


class Routes:
    """Who wants messages, as it was read last."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._read = 0

    def of(self, app_ids: Iterable[str]) -> dict[str, _Known]:
        """Of the applications that are known; not all of their types may be."""
        return {app_id: known for app_id in app_ids if (known := self._known.get(app_id)) is not None}

    def forget(self, app_ids: Iterable[str]) -> None:
        for app_id in app_ids:
            self._known.pop(app_id, None)

    async def read(self, db: Connection, messages: Iterable[NewMessage]) -> dict[str, _Known]:
        """Who wants these messages now, for each application that there is."""
        asked: dict[str, set[str]] = defaultdict(set)
        for message in messages:
            asked[message.app_id].add(message.event_type)
        rows = await db.fetch(SQL["accept_routes"], list(asked), [texts(list(types)) for types in asked.values()])
        found: dict[str, _Known] = {}
        for app_id, number, endpoint_id, event_types, channels in rows:
            types = found.setdefault(app_id, _Known(number, {each: [] for each in asked[app_id]})).types
            if endpoint_id is not None:
                route = _Route(endpoint_id, None if channels is None else frozenset(channels))
                for each in types if event_types is None else types.keys() & set(event_types):
                    types[each].append(route)
        self._keep(found)
        return found

    def _keep(self, found: Mapping[str, _Known]) -> None:
        size = sum(1 + len(routes) for read in found.values() for routes in read.types.values())
        self._read += size
        if self._read > _MOST_ROUTES:
            self._known.clear()
            self._read = size
        for app_id, read in found.items():
            known = self._known.get(app_id)
            if known is not None and known.number == read.number:
                known.types.update(read.types)
            else:
                self._known[app_id] = read


def is_plain(messages: Iterable[NewMessage]) -> bool:
    """Whether one statement writes all: where a uid may be taken, the key of its message may have to go again."""
    return all(message.uid is None for message in messages)


async def accept(db: Connection, routes: Routes, messages: Sequence[NewMessage]) -> list[Answer]:
    """Answers in the order of the messages, as if they had come one after the other."""
    batch = _Batch(db, routes)
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
    def __init__(self, db: Connection, routes: Routes) -> None:
        self._db = db
        self._routes = routes
        self.answers: dict[int, Answer] = {}

    async def round(self, waiting: Sequence[Asked]) -> None:
        """Store what can be stored; a key stands for one message in a round, the others find it taken."""
        known = self._routes.of({message.app_id for _, message in waiting})
        missing = {
            message.app_id
            for _, message in waiting
            if message.app_id not in known or message.event_type not in known[message.app_id].types
        }
        before = {app_id: each.number for app_id, each in known.items() if app_id not in missing}
        if missing:
            asked = [message for _, message in waiting if message.app_id in missing]
            # Nobody need ask whether this is still true: it is as if the messages had come just now.
            read = await self._routes.read(self._db, asked)
            known = {**{app_id: known[app_id] for app_id in before}, **read}
        fan_out: dict[int, Sequence[str]] = {}
        for n, message in waiting:
            if message.app_id not in known:
                self.answers[n] = Refused("unknown_application")
            else:
                routes = known[message.app_id].types[message.event_type]
                fan_out[n] = [each.endpoint_id for each in routes if each.takes(message)]
        first = _first_of_each_key(each for each in waiting if each[0] in fan_out)
        if not first:
            return
        keyed = await self._store(first, fan_out, before)
        if keyed is None:
            self._routes.forget(before)
            return
        left = [each for each in waiting if each[0] not in self.answers]
        if left:
            await self._not_stored(left, keyed)

    async def _store(self, asked: Sequence[Asked], fan_out: FanOut, before: Mapping[str, int]) -> set[int] | None:
        """Returns whose keys were free; even so a message is not stored if its uid is taken.

        None: nothing was done, because the routes that were known before have changed.
        """
        columns = (*_messages(asked), *_keys(asked, fan_out), DAY_MS, *_deliveries(asked, fan_out))
        checked = texts(list(before)), numbers(before.values())
        rows = await self._db.fetch(SQL["accept_messages"], *columns, *checked)
        if not rows:
            return None
        now = rows[0]["now"]
        free: set[str] = set()
        stored: set[str] = set()
        for id_, is_stored, _ in rows:
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


def _deliveries(asked: Sequence[Asked], fan_out: FanOut) -> tuple[str, ...]:
    made = [(message, endpoint_id) for n, message in asked for endpoint_id in fan_out[n]]
    return (
        texts([message.id for message, _ in made]),
        texts([endpoint_id for _, endpoint_id in made]),
        texts([message.app_id for message, _ in made]),
        numbers(message.deliver_ms for message, _ in made),
    )
