"""Endpoints of all applications, the sick ones first: what an operator looks at."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

from msgspec import Meta

from hookfuse.api.call import Call, Reader
from hookfuse.api.problems import not_found
from hookfuse.api.routes import Routes
from hookfuse.api.wire import Instant, Iterator, Limit, Page, Uid, Wire, seconds_instant
from hookfuse.core.condition import WORST_FIRST, Condition, EndpointFilter, Listed, condition_of
from hookfuse.core.endpoint import Stop
from hookfuse.core.gauges import Gauge, gauges, nearest
from hookfuse.core.paging import FIRST, LAST, Mark, Span
from hookfuse.core.state import Breaker, Override, Snapshot, State, snapshot
from hookfuse.core.tally import SLOT_MS, Tally
from hookfuse.errors import StoreUnavailable

routes = Routes("Endpoints")

# The list has two parts: the sick, by how sick they are, and all others, by id.
_SICK, _OTHERS = 0, 1
_MOST_TRIPS = 999_999
_STEPS, _SLOTS_A_STEP = 30, 3


class GaugeOut(Wire):
    """A rule of the policy: where it stands, and where it trips."""

    rule: str
    value: float
    limit: float
    calls: int | None
    """How many calls the figure is made of; null: it does not matter."""
    min_calls: int | None
    """With fewer the rule does not judge."""


class RecentOut(Wire):
    """Attempts of the last quarter of an hour, in steps of half a minute, oldest first."""

    ok: list[int]
    failed: list[int]


class ConditionOut(Wire):
    """An endpoint, and how it stands."""

    id: str
    app_id: str
    app_name: str
    url: str
    description: str
    uid: str | None
    condition: Condition
    """What its deliveries meet, worst first."""
    state: State
    override: Override
    reason: str
    why: str
    """Why, in words; empty if there is nothing to say."""
    paused: bool
    disabled: bool
    failed: int
    calls: int
    """In the policy's window."""
    gauge: GaugeOut
    """The rule that is nearest to tripping."""
    trips: int
    since: Instant | None
    probe_at: Instant | None
    held_until: Instant | None
    """The end of what a Retry-After asked for."""
    held: int
    """How many deliveries wait, counted up to ten thousand."""
    recent: RecentOut


class ConditionsQuery(Wire, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None
    condition: Annotated[list[Condition], Meta(min_length=1, max_length=20)] | None = None
    app_id: Uid | None = None
    search: Annotated[str, Meta(max_length=256)] = ""
    """A part of the URL, the description, an id or uid, or the application's name."""


class GaugesOut(Wire):
    data: list[GaugeOut]


class _Row(NamedTuple):
    mark: Mark
    endpoint: Listed
    seen: Snapshot | None
    condition: Condition


@routes.get("/endpoint", errors=(404,))
async def list_conditions(call: Call, query: ConditionsQuery) -> Page[ConditionOut]:
    """List the endpoints of all applications that the key may see, the sickest first."""
    chosen = EndpointFilter(await _app_id(call, query), query.search)
    about = f"conditions {chosen.app_id} {query.search} {query.condition}"
    reader = Reader(call, about, limit=query.limit, iterator=query.iterator)
    rows = await _rows(call, chosen, frozenset(query.condition or Condition), reader.span)
    told = dict(zip([row.endpoint.id for row in rows], await _told(call, rows), strict=True))
    return reader.page(rows, lambda row: row.mark, lambda row: told[row.endpoint.id])


@routes.get("/app/{app_id}/breaker/{endpoint_id}/gauges")
async def get_breaker_gauges(call: Call) -> GaugesOut:
    """Where each rule of an endpoint's policy stands, in the order of the policy."""
    endpoint = await call.endpoint()
    await call.parts.targets.read([endpoint.id])
    seen = await call.parts.breakers.inspect(endpoint.key)
    policy = call.parts.breakers.policy(endpoint.key)
    return GaugesOut(data=[gauge_told(each) for each in gauges(policy, seen.counts, seen.streak)])


async def count_conditions(call: Call, endpoints: int) -> dict[Condition, int]:
    """Of so many endpoints of all applications, how many stand how."""
    breakers = await _sick_breakers(call)
    sick = await call.parts.store.sick_endpoints(EndpointFilter(), [_name(key) for key in breakers])
    counts = Counter(condition_of(each, breakers.get(each.key)) for each in sick)
    counts[Condition.CLOSED] += max(0, endpoints - len(sick))
    return {condition: counts[condition] for condition in Condition if counts[condition]}


async def _app_id(call: Call, query: ConditionsQuery) -> str | None:
    if query.app_id is None:
        return call.key.app_id
    found = await call.parts.store.application(query.app_id)
    if found is None or call.key.app_id not in (None, found.id):
        raise not_found("application")
    return found.id


async def _rows(call: Call, chosen: EndpointFilter, wanted: frozenset[Condition], span: Span) -> list[_Row]:
    breakers = await _sick_breakers(call)
    names = [_name(key) for key in breakers]
    sick = [_row(each, breakers) for each in await call.parts.store.sick_endpoints(chosen, names)]
    sick.sort(key=lambda row: row.mark, reverse=span.backwards)
    found = [row for row in sick if row.condition in wanted and span.after < row.mark < span.before]
    if Condition.CLOSED not in wanted or (len(found) >= span.limit and not span.backwards):
        return found[: span.limit]
    within = _within_others(span, 0 if span.backwards else len(found))
    listed = await call.parts.store.other_endpoints(chosen, [row.endpoint.id for row in sick], within)
    others = [_Row(Mark(_OTHERS, each.id), each, None, Condition.CLOSED) for each in listed]
    return (others + found if span.backwards else found + others)[: span.limit]


async def _sick_breakers(call: Call) -> dict[str, Snapshot]:
    """By their keys. While their store is away, which readiness tells, what the database knows has to do."""
    try:
        return {each.key: each async for each in call.parts.breakers.unhealthy()}
    except StoreUnavailable:
        return {}


def _name(key: str) -> str:
    """The id or the breaker key of the endpoints that a breaker guards."""
    return key.partition("/")[2]


def _within_others(span: Span, had: int) -> Span:
    after = span.after if span.after.at_ms == _OTHERS else FIRST
    # Below the mark of a sick one there are no others.
    before = span.before if span.before.at_ms == _OTHERS else LAST if span.before == LAST else FIRST
    return replace(span, limit=span.limit - had, after=after, before=before)


def _row(endpoint: Listed, breakers: dict[str, Snapshot]) -> _Row:
    seen = breakers.get(endpoint.key)
    condition = condition_of(endpoint, seen)
    trips = 0 if seen is None else min(seen.trips, _MOST_TRIPS)
    place = f"{WORST_FIRST[condition]:02}-{_MOST_TRIPS - trips:06}-{endpoint.id}"
    return _Row(Mark(_SICK, place), endpoint, seen, condition)


async def _told(call: Call, rows: Sequence[_Row]) -> list[ConditionOut]:
    ids = [row.endpoint.id for row in rows]
    if not ids:
        return []
    await call.parts.targets.read(ids)
    waiting = await call.parts.store.waiting(ids)
    seen = await asyncio.gather(*(_seen(call, row) for row in rows))
    recent = steps(ids, await call.parts.store.recent(ids, _STEPS * _SLOTS_A_STEP), int(time.time() * 1000))
    return [
        _condition(call, _as_of(row, one), one, waiting.get(row.endpoint.id, 0), recent[row.endpoint.id])
        for row, one in zip(rows, seen, strict=True)
    ]


def steps(ids: Sequence[str], tallies: Sequence[Tally], now_ms: int) -> dict[str, RecentOut]:
    """Slots put together into steps; the last of them is the running one."""
    found = {id_: RecentOut(ok=[0] * _STEPS, failed=[0] * _STEPS) for id_ in ids}
    running = now_ms // SLOT_MS
    for each in tallies:
        back = (running - each.slot_ms // SLOT_MS) // _SLOTS_A_STEP
        # The database's clock may be a little ahead or behind.
        place = min(max(_STEPS - 1 - back, 0), _STEPS - 1)
        found[each.endpoint_id].ok[place] += each.ok
        found[each.endpoint_id].failed[place] += each.failed
    return found


async def _seen(call: Call, row: _Row) -> Snapshot:
    if row.seen is not None:
        return row.seen
    try:
        return await call.parts.breakers.inspect(row.endpoint.key)
    except StoreUnavailable:
        policy = call.parts.breakers.policy(row.endpoint.key)
        return snapshot(Breaker(row.endpoint.key, policy.bucket_ms), policy, int(time.time() * 1000))


def _as_of(row: _Row, seen: Snapshot) -> _Row:
    """A breaker may have changed since the sick ones were listed: what is told of it is of one instant."""
    return row if row.seen is not None else row._replace(condition=condition_of(row.endpoint, seen))


def _condition(call: Call, row: _Row, seen: Snapshot, waiting: int, recent: RecentOut) -> ConditionOut:
    endpoint = row.endpoint
    policy = call.parts.breakers.policy(endpoint.key)
    return ConditionOut(
        id=endpoint.id,
        app_id=endpoint.app_id,
        app_name=endpoint.app_name,
        url=endpoint.url,
        description=endpoint.description,
        uid=endpoint.uid,
        condition=row.condition,
        state=seen.state,
        override=seen.override,
        reason=seen.reason,
        why=_why(row, seen),
        paused=bool(endpoint.stop & (Stop.PAUSED | Stop.APP_PAUSED)),
        disabled=bool(endpoint.stop & Stop.DISABLED),
        failed=seen.counts.failed,
        calls=seen.counts.calls,
        gauge=gauge_told(nearest(gauges(policy, seen.counts, seen.streak))),
        trips=seen.trips,
        since=seconds_instant(seen.changed_at),
        probe_at=seconds_instant(seen.probe_at),
        held_until=seconds_instant(seen.throttled_until),
        held=waiting if seen.refuses or endpoint.stop else 0,
        recent=recent,
    )


def _why(row: _Row, seen: Snapshot) -> str:
    match row.condition:
        case Condition.DISABLED:
            return row.endpoint.disabled_reason or seen.why
        case Condition.BLOCKED:
            return row.endpoint.flag
        case Condition.OPEN | Condition.HALF_OPEN | Condition.FORCED_OPEN | Condition.FORCED_CLOSED:
            return seen.why
        case _:
            return ""


def gauge_told(gauge: Gauge) -> GaugeOut:
    return GaugeOut(rule=gauge.rule, value=gauge.value, limit=gauge.limit, calls=gauge.calls, min_calls=gauge.min_calls)
