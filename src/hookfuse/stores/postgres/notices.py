"""What breakers did, and the outbox of notices, on Postgres."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, TypeVar

from hookfuse.core.duty import Tenure
from hookfuse.core.history import Entry, Head, Unstopped
from hookfuse.core.notice import (
    Event,
    Notice,
    NoticeChannel,
    NoticeRules,
    NoticeSettings,
    NoticeState,
    Occurrence,
    Waiting,
    oldest_id,
)
from hookfuse.core.paging import Span
from hookfuse.core.state import Override, State, Transition
from hookfuse.stores.postgres import outbox
from hookfuse.stores.postgres.connections import Connection, Connections, Job, Purpose
from hookfuse.stores.postgres.duties import holds
from hookfuse.stores.postgres.lists import by_id, by_time
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.sql import storable

T = TypeVar("T")


class Notices:
    """The methods of the store that deal with notices."""

    _connections: Connections
    _rules: NoticeRules

    async def keep_transitions(self, transitions: Sequence[Transition]) -> Sequence[Transition]:
        return await self._told(lambda db: outbox.keep(db, transitions, self._rules))

    async def heads(self, keys: Sequence[str]) -> Sequence[Head]:
        return await self._asked(lambda db: _heads(db, "heads", list(keys)))

    async def unhealthy_heads(self, after: str, limit: int) -> Sequence[Head]:
        return await self._asked(lambda db: _heads(db, "unhealthy_heads", after, limit))

    async def unstopped(self, after: str, limit: int) -> Sequence[Unstopped]:
        return await self._asked(lambda db: _unstopped(db, after, limit))

    async def transitions_page(
        self, span: Span, *, app_id: str | None = None, key: str | None = None
    ) -> Sequence[Entry]:
        return await self._asked(lambda db: _transitions(db, span, app_id, key))

    async def prune_history(self, *, older_than_ms: int, limit: int = 1000, tenure: Tenure | None = None) -> int:
        return await self._told(lambda db: _prune(db, older_than_ms, limit, tenure))

    async def claim_notices(
        self, channel: NoticeChannel, limit: int, *, lease_ms: int, tenure: Tenure | None = None
    ) -> Sequence[Notice]:
        return await self._asked(lambda db: _claim(db, channel, limit, lease_ms, tenure))

    async def settle_notice(self, notice: Notice, state: NoticeState, *, reason: str = "", delay_ms: int = 0) -> bool:
        delay = delay_ms if state is NoticeState.PENDING else None
        values = (notice.id, notice.token, state.value, storable(reason), delay)
        return await self._asked(lambda db: _done(db, "settle_notice", *values))

    async def notices_page(
        self, span: Span, *, app_id: str | None = None, state: NoticeState | None = None
    ) -> Sequence[Notice]:
        return await self._asked(lambda db: _notices(db, span, app_id, state))

    async def notice_settings(self, app_id: str) -> NoticeSettings | None:
        return await self._asked(lambda db: outbox.settings_of(db, app_id))

    async def notice_settings_from(self, after: str, limit: int) -> Sequence[NoticeSettings]:
        return await self._asked(lambda db: _settings_from(db, after, limit))

    async def change_notice_settings(self, settings: NoticeSettings) -> NoticeSettings:
        return await self._ordered(lambda db: _change_settings(db, settings))

    async def delete_notice_settings(self, app_id: str) -> bool:
        return await self._ordered(lambda db: _done(db, "delete_notice_settings", app_id))

    async def reseal_notices(self, before: NoticeSettings, sealed: bytes) -> bool:
        return await self._asked(lambda db: _done(db, "reseal_notices", before.app_id, before.sealed, sealed))

    async def tell(self, happened: Occurrence) -> None:
        await self._told(lambda db: outbox.announce(db, happened, self._rules))

    async def notices_waiting(self) -> Sequence[Waiting]:
        return await self._asked(_waiting)

    async def look_for_failing(self, stages_ms: Sequence[int], tenure: Tenure | None = None) -> Sequence[Occurrence]:
        return await self._told(lambda db: outbox.look_for_failing(db, stages_ms, tenure, self._rules))

    async def _asked(self, job: Job[T]) -> T:
        return await self._connections.alone(Purpose.DESK, job)

    async def _ordered(self, job: Job[T]) -> T:
        return await self._connections.change(Purpose.DESK, job, alone=True)

    async def _told(self, job: Job[T]) -> T:
        return await self._connections.together(Purpose.DESK, job)


async def _heads(db: Connection, name: str, *values: Any) -> list[Head]:
    return [Head(key, generation, State(state)) for key, generation, state in await db.fetch(SQL[name], *values)]


async def _unstopped(db: Connection, after: str, limit: int) -> list[Unstopped]:
    return [Unstopped(*row) for row in await db.fetch(SQL["unstopped"], after, limit)]


async def _transitions(db: Connection, span: Span, app_id: str | None, key: str | None) -> list[Entry]:
    if key is not None:
        rows = await by_time(db, "transitions_of_breaker_page", span, key)
    elif app_id is not None:
        rows = await by_time(db, "transitions_of_application_page", span, app_id)
    else:
        rows = await by_time(db, "transitions_page", span)
    return [_entry(row) for row in rows]


def _entry(row: Any) -> Entry:
    made = Transition(
        row["key"],
        State(row["before"]),
        State(row["after"]),
        row["generation"],
        row["at_ms"] / 1000,
        row["reason"],
        json.loads(row["numbers"]),
        row["actor"],
        Override(row["override"]),
    )
    return Entry(made, row["app_id"], row["endpoint_id"])


async def _notices(db: Connection, span: Span, app_id: str | None, state: NoticeState | None) -> list[Notice]:
    if app_id is None:
        rows = await by_id(db, "notices_page", span, state)
    else:
        rows = await by_id(db, "notices_of_application_page", span, state, app_id)
    return [_notice(row) for row in rows]


async def _waiting(db: Connection) -> list[Waiting]:
    rows = await db.fetch(SQL["notices_waiting"])
    return [Waiting(NoticeChannel(channel), number, age_ms) for channel, number, age_ms in rows]


def _notice(row: Any) -> Notice:
    values = dict(row)
    values["event"] = Event(values["event"])
    values["channel"] = NoticeChannel(values["channel"])
    values["state"] = NoticeState(values["state"])
    values["facts"] = json.loads(values["facts"])
    return Notice(**values)


async def _claim(
    db: Connection, channel: NoticeChannel, limit: int, lease_ms: int, tenure: Tenure | None
) -> list[Notice]:
    fence = (None, None) if tenure is None else (tenure.duty.value, tenure.fence)
    return [_notice(row) for row in await db.fetch(SQL["claim_notices"], channel.value, limit, lease_ms, *fence)]


async def _settings_from(db: Connection, after: str, limit: int) -> list[NoticeSettings]:
    return [outbox.read_settings(row) for row in await db.fetch(SQL["notice_settings_from"], after, limit)]


async def _change_settings(db: Connection, settings: NoticeSettings) -> NoticeSettings:
    row = await db.fetchrow(
        SQL["change_notice_settings"],
        settings.app_id,
        list(settings.channels),
        settings.sealed,
        None if settings.events is None else list(settings.events),
        settings.quiet_ms,
    )
    return outbox.read_settings(row)


async def _prune(db: Connection, older_than_ms: int, limit: int, tenure: Tenure | None) -> int:
    if not await holds(db, tenure):
        return 0
    gone = int(await db.fetchval(SQL["prune_transitions"], older_than_ms, limit))
    gone += int(await db.fetchval(SQL["prune_notices"], oldest_id(older_than_ms), limit))
    await db.execute(SQL["prune_heads"], older_than_ms)
    return gone


async def _done(db: Connection, name: str, *values: Any) -> bool:
    return bool(await db.fetchval(SQL[name], *values))
