"""Accepting a batch of messages: one statement, and a look at the keys of those that it did not store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hookfuse.core.lanes import DAY_MS
from hookfuse.core.message import Accepted, Answer, NewMessage, Refused
from hookfuse.errors import StoreUnavailable
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL

_IDLE_ROUNDS = 5

Key = tuple[str, str]
Asked = tuple[int, NewMessage]


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
        """One statement stores what can be stored; a key stands for one message in it, the others find it taken."""
        first = _first_of_each_key(waiting)
        rows = await self._db.fetch(SQL["accept"], *_arrays(first), DAY_MS)
        found = {first[row["n"] - 1][0]: row for row in rows}
        unknown = {message.app_id for n, message in first if n not in found}
        for n, message in waiting:
            if message.app_id in unknown:
                self.answers[n] = Refused("unknown_application")
            elif n in found and found[n]["stored"]:
                self.answers[n] = Accepted(message.id, found[n]["now"], found[n]["deliveries"])
        left = [each for each in waiting if each[0] not in self.answers]
        if left:
            await self._not_stored(left, {n for n, row in found.items() if row["keyed"]})

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


def _arrays(asked: Sequence[Asked]) -> tuple[list[Any], ...]:
    messages = [message for _, message in asked]
    return (
        [each.id for each in messages],
        [each.app_id for each in messages],
        [each.uid for each in messages],
        [each.event_type for each in messages],
        [_array_text(each.channels) for each in messages],
        [each.deliver_ms for each in messages],
        [each.payload for each in messages],
        [each.idempotency_key for each in messages],
        [each.fingerprint for each in messages],
    )


def _array_text(texts: Sequence[str]) -> str:
    """An array as Postgres writes it: arrays of different lengths do not fit into one array."""
    quoted = ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return "{" + ",".join(quoted) + "}"
