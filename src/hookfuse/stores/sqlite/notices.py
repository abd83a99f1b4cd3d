"""What breakers did, and the outbox of notices, on SQLite."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import apsw

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
from hookfuse.stores.sql import storable
from hookfuse.stores.sqlite import lists, outbox
from hookfuse.stores.sqlite.duties import holds
from hookfuse.stores.sqlite.queries import SQL

T = TypeVar("T")

_NOTICE = tuple(each.name for each in fields(Notice))


class Notices:
    """The methods of the store that deal with notices."""

    _rules: NoticeRules

    async def keep_transitions(self, transitions: Sequence[Transition]) -> Sequence[Transition]:
        return await self._write(lambda db, now: outbox.keep(db, transitions, self._rules, now))

    async def heads(self, keys: Sequence[str]) -> Sequence[Head]:
        return await self._read(lambda db: _heads(db, "heads", keys=json.dumps(list(keys))))

    async def unhealthy_heads(self, after: str, limit: int) -> Sequence[Head]:
        return await self._read(lambda db: _heads(db, "unhealthy_heads", after=after, limit=limit))

    async def unstopped(self, after: str, limit: int) -> Sequence[Unstopped]:
        return await self._read(lambda db: _unstopped(db, after, limit))

    async def transitions_page(
        self, span: Span, *, app_id: str | None = None, key: str | None = None
    ) -> Sequence[Entry]:
        name, values = "transitions_page", {}
        if key is not None:
            name, values = "transitions_of_breaker_page", {"key": key}
        elif app_id is not None:
            name, values = "transitions_of_application_page", {"app": app_id}
        return await self._read(lambda db: lists.page(db, name, span, _entry, **values))

    async def prune_history(self, *, older_than_ms: int, limit: int = 1000, tenure: Tenure | None = None) -> int:
        return await self._write(lambda db, now: _prune(db, older_than_ms, limit, tenure))

    async def claim_notices(
        self, channel: NoticeChannel, limit: int, *, lease_ms: int, tenure: Tenure | None = None
    ) -> Sequence[Notice]:
        # Most of the time nothing is due, and looking costs no transaction.
        if not await self._read(lambda db: _due(db, channel, 1, self._now_ms())):
            return []
        return await self._write(lambda db, now: _claim(db, channel, limit, lease_ms, tenure, now))

    async def settle_notice(self, notice: Notice, state: NoticeState, *, reason: str = "", delay_ms: int = 0) -> bool:
        return await self._write(lambda db, now: _settle(db, notice, state, reason, delay_ms, now))

    async def notices_page(
        self, span: Span, *, app_id: str | None = None, state: NoticeState | None = None
    ) -> Sequence[Notice]:
        name = "notices_page" if app_id is None else "notices_of_application_page"
        return await self._read(lambda db: lists.page(db, name, span, _notice, app=app_id, state=state))

    async def notice_settings(self, app_id: str) -> NoticeSettings | None:
        return await self._read(lambda db: outbox.settings_of(db, app_id))

    async def notice_settings_from(self, after: str, limit: int) -> Sequence[NoticeSettings]:
        return await self._read(lambda db: _settings_from(db, after, limit))

    async def change_notice_settings(self, settings: NoticeSettings) -> NoticeSettings:
        return await self._write(lambda db, now: _change_settings(db, settings, now))

    async def delete_notice_settings(self, app_id: str) -> bool:
        return await self._write(lambda db, now: _changed(db, "delete_notice_settings", app=app_id))

    async def reseal_notices(self, before: NoticeSettings, sealed: bytes) -> bool:
        values = {"app": before.app_id, "before": before.sealed, "after": sealed}
        return await self._write(lambda db, now: _changed(db, "reseal_notices", **values))

    async def tell(self, happened: Occurrence) -> None:
        await self._write(lambda db, now: outbox.announce(db, happened, self._rules, now))

    async def notices_waiting(self) -> Sequence[Waiting]:
        return await self._read(lambda db: _waiting(db, self._now_ms()))

    async def look_for_failing(self, stages_ms: Sequence[int], tenure: Tenure | None = None) -> Sequence[Occurrence]:
        return await self._write(lambda db, now: outbox.look_for_failing(db, stages_ms, tenure, self._rules, now))

    def _now_ms(self) -> int:
        raise NotImplementedError

    async def _read(self, job: Callable[[apsw.Connection], T]) -> T:
        raise NotImplementedError

    async def _write(self, job: Callable[[apsw.Connection, int], T], *, rings: bool = False) -> T:
        raise NotImplementedError


def end_leases(db: apsw.Connection) -> None:
    db.execute(SQL["end_notice_leases"])


def _heads(db: apsw.Connection, name: str, **values: Any) -> list[Head]:
    rows: list[Any] = db.execute(SQL[name], values).fetchall()
    return [Head(key, generation, State(state)) for key, generation, state in rows]


def _unstopped(db: apsw.Connection, after: str, limit: int) -> list[Unstopped]:
    rows: list[Any] = db.execute(SQL["unstopped"], {"after": after, "limit": limit}).fetchall()
    return [Unstopped(*row) for row in rows]


def _entry(row: Any) -> Entry:
    key, before, after, generation, at_ms, reason, numbers, actor, override, app_id, endpoint_id = row
    made = Transition(
        key,
        State(before),
        State(after),
        generation,
        at_ms / 1000,
        reason,
        json.loads(numbers),
        actor,
        Override(override),
    )
    return Entry(made, app_id, endpoint_id)


def _notice(row: Any) -> Notice:
    values = dict(zip(_NOTICE, row, strict=True))
    values["event"] = Event(values["event"])
    values["channel"] = NoticeChannel(values["channel"])
    values["state"] = NoticeState(values["state"])
    values["facts"] = json.loads(values["facts"])
    return Notice(**values)


def _due(db: apsw.Connection, channel: NoticeChannel, limit: int, now: int) -> list[Any]:
    return db.execute(SQL["due_notices"], {"channel": channel.value, "now": now, "limit": limit}).fetchall()


def _claim(
    db: apsw.Connection, channel: NoticeChannel, limit: int, lease_ms: int, tenure: Tenure | None, now: int
) -> list[Notice]:
    if not holds(db, tenure):
        return []
    return [
        _notice(db.execute(SQL["claim_notice"], {"id": id_, "until": now + lease_ms}).fetchone())
        for (id_,) in _due(db, channel, limit, now)
    ]


def _waiting(db: apsw.Connection, now: int) -> list[Waiting]:
    rows: list[Any] = db.execute(SQL["notices_waiting"], {"now": now}).fetchall()
    return [Waiting(NoticeChannel(channel), number, age_ms) for channel, number, age_ms in rows]


def _settle(db: apsw.Connection, notice: Notice, state: NoticeState, reason: str, delay_ms: int, now: int) -> bool:
    due_ms = now + delay_ms if state is NoticeState.PENDING else None
    values = {"state": state.value, "due_ms": due_ms, "reason": storable(reason), "now": now}
    return _changed(db, "settle_notice", id=notice.id, token=notice.token, **values)


def _settings_from(db: apsw.Connection, after: str, limit: int) -> list[NoticeSettings]:
    rows = db.execute(SQL["notice_settings_from"], {"after": after, "limit": limit})
    return [outbox.read_settings(row) for row in rows]


def _change_settings(db: apsw.Connection, settings: NoticeSettings, now: int) -> NoticeSettings:
    db.execute(
        SQL["change_notice_settings"],
        {
            "app": settings.app_id,
            "channels": json.dumps(settings.channels),
            "sealed": settings.sealed,
            "events": None if settings.events is None else json.dumps(settings.events),
            "quiet_ms": settings.quiet_ms,
            "now": now,
        },
    )
    found = outbox.settings_of(db, settings.app_id)
    assert found is not None
    return found


def _prune(db: apsw.Connection, older_than_ms: int, limit: int, tenure: Tenure | None) -> int:
    if not holds(db, tenure):
        return 0
    gone = 0
    bounds = {"prune_transitions": older_than_ms, "prune_notices": oldest_id(older_than_ms)}
    for name, before in bounds.items():
        db.execute(SQL[name], {"before": before, "limit": limit})
        gone += db.changes()
    db.execute(SQL["prune_heads"], {"before": older_than_ms})
    return gone


def _changed(db: apsw.Connection, name: str, **values: Any) -> bool:
    db.execute(SQL[name], values)
    return db.changes() > 0
