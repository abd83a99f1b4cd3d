"""Breakers: see why an endpoint gets nothing, and decide otherwise.

A breaker is named by an endpoint that it guards. Endpoints with the same `breakerKey` share one, so naming either of
them means the same breaker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from hookfuse.api.breaker_models import BreakerOut, HistoryOut, breaker_told, history_told
from hookfuse.api.call import Call, Reader
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Instant, Iterator, Limit, Page, Reason, Wire
from hookfuse.core.endpoint import Endpoint, Stop
from hookfuse.core.history import BY_BREAKER, named_endpoint
from hookfuse.core.ids import IdKind
from hookfuse.core.paging import LAST, Mark, Span
from hookfuse.core.state import Order, Override, Snapshot, State, Transition
from hookfuse.delivery.keeper import keep_standing

routes = Routes("Breakers")

_AT = "/app/{app_id}/breaker/{endpoint_id}"
_TOLD = 50


class Forced(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class BreakersQuery(Wire, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None
    state: Annotated[list[State], Meta(min_length=1, max_length=4)] | None = None


class ForceIn(Wire):
    to: Forced
    reason: Reason = ""
    until: Instant | None = None
    """When it ends by itself; left out: when someone ends it."""


class OrderIn(Wire):
    reason: Reason = ""


@routes.get("/breaker", needs=Needs.OVERVIEW)
async def list_all_breakers(call: Call, query: BreakersQuery) -> Page[BreakerOut]:
    """List the breakers of all applications that are not plainly closed."""
    return await _list(call, query, "")


@routes.get("/app/{app_id}/breaker")
async def list_breakers(call: Call, query: BreakersQuery) -> Page[BreakerOut]:
    """List the breakers of an application that are not plainly closed."""
    return await _list(call, query, f"{call.app.id}/")


@routes.get(_AT)
async def get_breaker(call: Call) -> BreakerOut:
    """Get the breaker of an endpoint."""
    return await _told(call, await _guarded(call))


@routes.get(f"{_AT}/history")
async def get_breaker_history(call: Call) -> HistoryOut:
    """What the breaker did last, and the last failures that it keeps."""
    endpoint = await _guarded(call)
    snapshot = await call.parts.breakers.inspect(endpoint.key)
    found = await call.parts.store.transitions_page(Span(_TOLD, backwards=True), key=endpoint.key)
    return history_told(found, snapshot)


@routes.post(f"{_AT}/force")
async def force_breaker(call: Call, body: ForceIn) -> BreakerOut:
    """Refuse every call or let every call pass, whatever happens."""
    endpoint, breakers = await _guarded(call), call.parts.breakers
    force = breakers.force_open if body.to is Forced.OPEN else breakers.force_closed
    until = None if body.until is None else body.until.timestamp()
    return await _ordered(call, endpoint, force(endpoint.key, reason=body.reason, until=until, actor=call.key.id))


@routes.post(f"{_AT}/unforce")
async def unforce_breaker(call: Call, body: OrderIn) -> BreakerOut:
    """End an override."""
    return await _order(call, Order.UNFORCE, body)


@routes.post(f"{_AT}/reset")
async def reset_breaker(call: Call, body: OrderIn) -> BreakerOut:
    """Close the breaker, with nothing held against the endpoint."""
    return await _order(call, Order.RESET, body)


@routes.post(f"{_AT}/disable")
async def disable_breaker(call: Call, body: OrderIn) -> BreakerOut:
    """Refuse every call until it is enabled, or until the policy's `reenable_after` has passed."""
    return await _order(call, Order.DISABLE, body)


@routes.post(f"{_AT}/enable")
async def enable_breaker(call: Call, body: OrderIn) -> BreakerOut:
    """Let a disabled breaker probe, and send to endpoints again that were disabled by it."""
    endpoint, store = await _guarded(call), call.parts.store
    told = await _order(call, Order.ENABLE, body)
    # The breaker first: while its store is away, nothing is changed.
    guarded = [each.endpoint_id for each in await store.guarded_by(endpoint.key)]
    for each in await store.endpoints(guarded):
        if not each.enabled and (each.id == endpoint.id or each.disabled_reason.startswith(BY_BREAKER)):
            await store.start_endpoint(each.id, Stop.DISABLED)
    return told


@routes.post(f"{_AT}/probe")
async def probe_breaker(call: Call, body: OrderIn) -> BreakerOut:
    """Let the next delivery try the endpoint now instead of when the cool-off is over; an override stays."""
    snapshot = await call.parts.breakers.inspect((await call.endpoint()).key)
    if snapshot.state is State.DISABLED and snapshot.override is Override.NONE:
        return await enable_breaker(call, body)
    return await _order(call, Order.PROBE, body)


async def _list(call: Call, query: BreakersQuery, prefix: str) -> Page[BreakerOut]:
    reader = Reader(call, f"breakers {prefix}", limit=query.limit, iterator=query.iterator)
    wanted = frozenset(query.state or State)
    found = [
        each
        async for each in call.parts.breakers.unhealthy()
        if each.key.startswith(prefix) and each.state in wanted and _within(each, reader)
    ]
    found.sort(key=lambda each: each.key, reverse=reader.span.backwards)
    held = await _held(call, found[: reader.span.limit])
    return reader.page(
        found[: reader.span.limit],
        lambda each: Mark(0, each.key),
        lambda each: breaker_told(each, held.get(each.key, 0)),
    )


def _within(snapshot: Snapshot, reader: Reader) -> bool:
    before = reader.span.before
    return snapshot.key > reader.span.after.id and (before == LAST or snapshot.key < before.id)


async def _guarded(call: Call) -> Endpoint:
    """The endpoint in the path; its policy is known here from now on."""
    endpoint = await call.endpoint()
    await call.parts.targets.read([endpoint.id])
    return endpoint


async def _order(call: Call, order: Order, body: OrderIn) -> BreakerOut:
    endpoint, breakers = await _guarded(call), call.parts.breakers
    verbs = {
        Order.UNFORCE: breakers.unforce,
        Order.PROBE: breakers.probe,
        Order.RESET: breakers.reset,
        Order.DISABLE: breakers.disable,
        Order.ENABLE: breakers.enable,
    }
    return await _ordered(call, endpoint, verbs[order](endpoint.key, reason=body.reason, actor=call.key.id))


async def _ordered(call: Call, endpoint: Endpoint, doing: Awaitable[Transition | None]) -> BreakerOut:
    await doing
    await keep_standing(call.parts.store, call.parts.breakers, endpoint.key)
    # Workers hear of it too; this spares those that do not know the endpoint a minute.
    await call.parts.store.unblock([endpoint.id])
    return await _told(call, endpoint)


async def _told(call: Call, endpoint: Endpoint) -> BreakerOut:
    snapshot = await call.parts.breakers.inspect(endpoint.key)
    holds = snapshot.refuses or endpoint.stop is not Stop.NONE
    held = await call.parts.store.waiting([endpoint.id]) if holds else {}
    return breaker_told(snapshot, held.get(endpoint.id, 0))


async def _held(call: Call, snapshots: list[Snapshot]) -> dict[str, int]:
    """What waits behind each breaker that refuses, by its key."""
    behind: dict[str, str] = {}
    for key in (each.key for each in snapshots if each.refuses):
        name = named_endpoint(key)
        if name.startswith(f"{IdKind.ENDPOINT}_"):
            behind[name] = key
        else:
            behind |= {each.endpoint_id: key for each in await call.parts.store.guarded_by(key)}
    held: Counter[str] = Counter()
    for endpoint_id, count in (await call.parts.store.waiting(list(behind)) if behind else {}).items():
        held[behind[endpoint_id]] += count
    return held
