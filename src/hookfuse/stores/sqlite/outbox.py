"""The verbs that people hear of: what happened goes into the outbox in the transaction that writes it down.

Jobs of the writer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import apsw

from hookfuse.core import history
from hookfuse.core.delivery import Claim, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.core.endpoint import Endpoint, Stop
from hookfuse.core.history import Entry, app_of, named_endpoint, told_by
from hookfuse.core.notice import Earlier, Event, NoticeChannel, NoticeRules, NoticeSettings, Occurrence, Placed, place
from hookfuse.core.state import State, Transition
from hookfuse.stores.sql import storable
from hookfuse.stores.sqlite import directory
from hookfuse.stores.sqlite import settle as settling
from hookfuse.stores.sqlite.duties import holds
from hookfuse.stores.sqlite.queries import SQL


def keep(db: apsw.Connection, transitions: Iterable[Transition], rules: NoticeRules, now: int) -> list[Transition]:
    new = []
    for each in transitions:
        row = db.execute(SQL["keep_transition"], _row(each)).fetchone()
        if row is None:
            continue
        new.append(each)
        db.execute(SQL["keep_head"], {"key": each.key, "generation": each.generation, "state": each.after.value})
        happened = told_by(Entry(each, app_of(each.key), row[0]))
        if happened is not None:
            announce(db, happened, rules, now)
    return new


def announce(db: apsw.Connection, happened: Occurrence, defaults: NoticeRules, now: int) -> None:
    """One notice for each channel, unless there is one already."""
    rules = _rules(db, happened.app_id, defaults)
    if happened.event not in rules.events:
        return
    for channel in rules.channels:
        values = {"thread": happened.thread, "channel": channel.value}
        found: list[Any] = db.execute(SQL["earlier_notices"], values).fetchall()
        earlier = [Earlier(id_, Event(event), from_ms, folded) for id_, event, from_ms, folded in found]
        placed = place(happened, rules, now, earlier)
        if placed is not None:
            _put(db, happened, channel, placed, now)


def stop_endpoint(
    db: apsw.Connection,
    id_: str,
    stop: Stop,
    reason: str,
    because: Transition | None,
    tenure: Tenure | None,
    rules: NoticeRules,
    now: int,
) -> Endpoint | None:
    if not holds(db, tenure):
        return None
    keep(db, () if because is None else (because,), rules, now)
    was_enabled = _enabled(db, id_)
    return _changed(db, directory.stop_endpoint(db, id_, stop, reason, now), was_enabled, rules, now)


def start_endpoint(db: apsw.Connection, id_: str, stop: Stop, rules: NoticeRules, now: int) -> Endpoint | None:
    was_enabled = _enabled(db, id_)
    return _changed(db, directory.start_endpoint(db, id_, stop, now), was_enabled, rules, now)


def settle(db: apsw.Connection, settlements: Sequence[Settlement], rules: NoticeRules, now: int) -> list[Claim]:
    stale = settling.settle(db, settlements, now)
    for happened in history.exhausted(settlements, stale, now):
        announce(db, happened, rules, now)
    return stale


def rescue(
    db: apsw.Connection, deaths: int, limit: int, tenure: Tenure | None, rules: NoticeRules, now: int
) -> Rescued:
    rescued = settling.rescue(db, deaths, limit, tenure, now)
    for message_id, endpoint_id in rescued.quarantined:
        app_id: Any = db.execute(SQL["lane_application"], {"endpoint": endpoint_id}).get
        announce(db, history.quarantined(app_id, endpoint_id, message_id, now), rules, now)
    return rescued


def look_for_failing(
    db: apsw.Connection, stages_ms: Sequence[int], tenure: Tenure | None, rules: NoticeRules, now: int
) -> list[Occurrence]:
    if not holds(db, tenure):
        return []
    db.execute(SQL["end_failing"])
    db.execute(SQL["begin_failing"], {"now": now})
    found: list[Any] = db.execute(SQL["failing_longer"], {"stages": json.dumps(list(stages_ms)), "now": now}).fetchall()
    reached = []
    for endpoint_id, app_id, since_ms, stage_ms in found:
        db.execute(SQL["told_failing"], {"endpoint": endpoint_id, "stage": stage_ms})
        last: Any = db.execute(SQL["last_attempt"], {"endpoint": endpoint_id}).fetchone()
        happened = history.failing(app_id, endpoint_id, since_ms, stage_ms, last)
        announce(db, happened, rules, now)
        reached.append(happened)
    return reached


def settings_of(db: apsw.Connection, app_id: str) -> NoticeSettings | None:
    row: Any = db.execute(SQL["notice_settings"], {"app": app_id}).fetchone()
    return None if row is None else read_settings(row)


def read_settings(row: Any) -> NoticeSettings:
    app_id, channels, sealed, events, quiet_ms, updated_ms = row
    return NoticeSettings(
        app_id,
        tuple(map(NoticeChannel, json.loads(channels))),
        sealed,
        None if events is None else tuple(map(Event, json.loads(events))),
        quiet_ms,
        updated_ms,
    )


def _enabled(db: apsw.Connection, endpoint_id: str) -> bool | None:
    return next((each.enabled for each in directory.endpoints_of(db, [endpoint_id])), None)


def _changed(
    db: apsw.Connection, endpoint: Endpoint | None, was_enabled: bool | None, rules: NoticeRules, now: int
) -> Endpoint | None:
    if endpoint is not None and endpoint.enabled is not was_enabled:
        head: Any = db.execute(SQL["head"], {"key": endpoint.key}).fetchone()
        # What its breaker did is told by the transition.
        if head is None or head[2] != State.DISABLED:
            announce(db, history.stopped(endpoint), rules, now)
    return endpoint


def _rules(db: apsw.Connection, app_id: str, defaults: NoticeRules) -> NoticeRules:
    own = settings_of(db, app_id)
    return defaults if own is None else own.rules(defaults)


def _put(db: apsw.Connection, happened: Occurrence, channel: NoticeChannel, placed: Placed, now: int) -> None:
    if placed.folds is not None and happened.event is Event.EXHAUSTED:
        # An endpoint may lose a million messages in a row: they are counted, not written down one by one.
        db.execute(SQL["count_folded"], {"id": placed.folds.id, "count": happened.count})
        return
    db.execute(
        SQL["add_notice"],
        {
            "id": happened.notice_id(channel),
            "event": happened.event.value,
            "channel": channel.value,
            "app": happened.app_id,
            "endpoint": happened.endpoint_id,
            "key": happened.key,
            "generation": happened.generation,
            "thread": happened.thread,
            "facts": storable(json.dumps(happened.facts)),
            "folded": placed.folded + happened.count - 1,
            "from_ms": placed.from_ms,
            "at_ms": happened.at_ms,
            "now": now,
        },
    )
    if placed.folds is not None and db.changes():
        db.execute(SQL["fold_notice"], {"id": placed.folds.id, "now": now})


def _row(made: Transition) -> dict[str, Any]:
    return {
        "key": made.key,
        "generation": made.generation,
        "app": app_of(made.key),
        "named": named_endpoint(made.key),
        "before": made.before.value,
        "after": made.after.value,
        "override": made.override.value,
        "reason": storable(made.reason),
        "numbers": json.dumps(dict(made.numbers)),
        "actor": storable(made.actor),
        "at_ms": int(made.at * 1000),
    }
