"""The verbs that people hear of: what happened goes into the outbox in the transaction that writes it down.

Locks are taken in one order: endpoints, lanes, transitions by key, heads, and threads of notices last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hookfuse.core import history
from hookfuse.core.delivery import Claim, DeliveryState, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.core.endpoint import Endpoint, Stop
from hookfuse.core.history import Entry, app_of, named_endpoint, told_by
from hookfuse.core.notice import Earlier, Event, NoticeChannel, NoticeRules, NoticeSettings, Occurrence, Placed, place
from hookfuse.core.state import State, Transition
from hookfuse.stores.postgres import directory
from hookfuse.stores.postgres import settle as settling
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.duties import holds
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.sql import storable


async def keep(db: Connection, transitions: Sequence[Transition], rules: NoticeRules) -> list[Transition]:
    new = []
    for each in sorted(transitions, key=lambda made: (made.key, made.generation)):
        row = await db.fetchrow(SQL["keep_transition"], *_row(each))
        if row is None:
            continue
        new.append(each)
        await db.execute(SQL["keep_head"], each.key, each.generation, each.after.value)
        happened = told_by(Entry(each, app_of(each.key), row["endpoint_id"]))
        if happened is not None:
            await announce(db, happened, rules)
    return new


async def announce(db: Connection, happened: Occurrence, defaults: NoticeRules) -> None:
    """One notice for each channel, unless there is one already."""
    own = await settings_of(db, happened.app_id)
    rules = defaults if own is None else own.rules(defaults)
    if happened.event not in rules.events or not rules.channels:
        return
    await db.execute(SQL["lock_thread"], happened.thread)
    now = await moment(db)
    for channel in rules.channels:
        found = await db.fetch(SQL["earlier_notices"], happened.thread, channel.value)
        earlier = [Earlier(row["id"], Event(row["event"]), row["from_ms"], row["folded"]) for row in found]
        placed = place(happened, rules, now, earlier)
        if placed is not None:
            await _put(db, happened, channel, placed, now)


async def stop_endpoint(
    db: Connection,
    id_: str,
    stop: Stop,
    reason: str,
    because: Transition | None,
    tenure: Tenure | None,
    rules: NoticeRules,
) -> Endpoint | None:
    if not await holds(db, tenure):
        return None
    was_enabled = await db.fetchval(SQL["endpoint_to_change"], id_)
    found = await directory.stop_endpoint(db, id_, stop, reason)
    await keep(db, () if because is None else (because,), rules)
    return await _changed(db, found, was_enabled, rules)


async def start_endpoint(db: Connection, id_: str, stop: Stop, rules: NoticeRules) -> Endpoint | None:
    was_enabled = await db.fetchval(SQL["endpoint_to_change"], id_)
    return await _changed(db, await directory.start_endpoint(db, id_, stop), was_enabled, rules)


async def settle(db: Connection, settlements: Sequence[Settlement], rules: NoticeRules) -> list[Claim]:
    stale = await settling.settle(db, settlements)
    if any(each.state is DeliveryState.FAILED for each in settlements):
        for happened in history.exhausted(settlements, stale, await moment(db)):
            await announce(db, happened, rules)
    return stale


async def rescue(db: Connection, deaths: int, limit: int, tenure: Tenure | None, rules: NoticeRules) -> Rescued:
    rescued = await settling.rescue(db, deaths, limit, tenure)
    for message_id, endpoint_id in sorted(rescued.quarantined, key=lambda place: place.endpoint_id):
        app_id = await db.fetchval(SQL["lane_application"], endpoint_id)
        await announce(db, history.quarantined(app_id, endpoint_id, message_id, await moment(db)), rules)
    return rescued


async def look_for_failing(
    db: Connection, stages_ms: Sequence[int], tenure: Tenure | None, rules: NoticeRules
) -> list[Occurrence]:
    if not await holds(db, tenure):
        return []
    now = await moment(db)
    await db.execute(SQL["end_failing"])
    await db.execute(SQL["begin_failing"], now)
    reached = []
    for endpoint_id, app_id, since_ms, stage_ms in await db.fetch(SQL["failing_longer"], list(stages_ms), now):
        await db.execute(SQL["told_failing"], endpoint_id, stage_ms)
        last = await db.fetchrow(SQL["last_attempt"], endpoint_id)
        happened = history.failing(app_id, endpoint_id, since_ms, stage_ms, last)
        await announce(db, happened, rules)
        reached.append(happened)
    return reached


async def moment(db: Connection) -> int:
    return int(await db.fetchval(SQL["notice_moment"]))


async def settings_of(db: Connection, app_id: str) -> NoticeSettings | None:
    row = await db.fetchrow(SQL["notice_settings"], app_id)
    return None if row is None else read_settings(row)


def read_settings(row: Any) -> NoticeSettings:
    events = row["events"]
    return NoticeSettings(
        row["app_id"],
        tuple(map(NoticeChannel, row["channels"])),
        row["sealed"],
        None if events is None else tuple(map(Event, events)),
        row["quiet_ms"],
        row["updated_ms"],
    )


async def _changed(
    db: Connection, endpoint: Endpoint | None, was_enabled: bool | None, rules: NoticeRules
) -> Endpoint | None:
    if endpoint is not None and endpoint.enabled is not was_enabled:
        heads = await db.fetch(SQL["heads"], [endpoint.key])
        # What its breaker did is told by the transition.
        if not heads or heads[0]["state"] != State.DISABLED:
            await announce(db, history.stopped(endpoint), rules)
    return endpoint


async def _put(db: Connection, happened: Occurrence, channel: NoticeChannel, placed: Placed, now: int) -> None:
    if placed.folds is not None and happened.event is Event.EXHAUSTED:
        # An endpoint may lose a million messages in a row: they are counted, not written down one by one.
        await db.execute(SQL["count_folded"], placed.folds.id, happened.count)
        return
    added = await db.fetchval(
        SQL["add_notice"],
        happened.notice_id(channel),
        happened.event.value,
        channel.value,
        happened.app_id,
        happened.endpoint_id,
        happened.key,
        happened.generation,
        happened.thread,
        _json(happened.facts),
        placed.folded + happened.count - 1,
        placed.from_ms,
        happened.at_ms,
        now,
    )
    if added and placed.folds is not None:
        await db.execute(SQL["fold_notice"], placed.folds.id, now)


def _json(value: object) -> str:
    # Postgres cannot hold NUL, not even as an escape within JSON.
    return json.dumps(value).replace("\\u0000", "\\ufffd")


def _row(made: Transition) -> tuple[Any, ...]:
    return (
        made.key,
        made.generation,
        app_of(made.key),
        named_endpoint(made.key),
        made.before.value,
        made.after.value,
        made.override.value,
        storable(made.reason),
        json.dumps(dict(made.numbers)),
        storable(made.actor),
        int(made.at * 1000),
    )
