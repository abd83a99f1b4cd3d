"""Deliveries: look at them by state, and retry or cancel one or many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from hookfuse.api.applications import Order
from hookfuse.api.call import Call, Reader
from hookfuse.api.next_steps import next_steps
from hookfuse.api.problems import Problem, not_found
from hookfuse.api.routes import Routes
from hookfuse.api.task_routes import TaskOut, task_told
from hookfuse.api.wire import (
    EventTypeNames,
    Instant,
    Iterator,
    Limit,
    Page,
    Uid,
    Wire,
    in_ms,
    instant,
    instant_or_none,
)
from hookfuse.core.delivery import Chosen, Delivery, DeliveryState, Place
from hookfuse.core.paging import Mark
from hookfuse.core.record import TaskKind

routes = Routes("Deliveries")

States = Annotated[list[DeliveryState], Meta(min_length=1, max_length=5)]


class DeliveryOut(Wire):
    """One message for one endpoint."""

    msg_id: str
    endpoint_id: str
    event_type: str
    url: str
    """Where the endpoint is today; empty: it was deleted."""
    state: DeliveryState
    attempts: int
    reason: str
    """Why it ended, or why it waits."""
    next_attempt: Instant | None
    """Null: it has ended, is under way, or waits for someone to decide, and `reason` says for what."""
    created_at: Instant
    ended_at: Instant | None


class _Choice(Wire, rename=None):
    state: States | None = None
    endpoint_id: Uid | None = None
    event_types: EventTypeNames | None = None
    since: Instant | None = None
    until: Instant | None = None


class DeliveriesQuery(_Choice, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None
    order: Order = Order.ASCENDING


class BulkRetryIn(Wire):
    """Which deliveries to send again; failed ones if no state is named."""

    state: States = msgspec.field(default_factory=lambda: [DeliveryState.FAILED])
    endpoint_id: Uid | None = None
    event_types: EventTypeNames | None = None
    since: Instant | None = None
    until: Instant | None = None
    dry_run: bool = False
    """Only count them."""


class BulkCancelIn(Wire):
    """Which waiting deliveries to cancel."""

    endpoint_id: Uid | None = None
    event_types: EventTypeNames | None = None
    since: Instant | None = None
    until: Instant | None = None
    dry_run: bool = False
    """Only count them."""


class PlaceIn(Wire):
    """What names a delivery."""

    msg_id: Uid
    endpoint_id: Uid


class RetryTheseIn(Wire):
    deliveries: Annotated[list[PlaceIn], Meta(min_length=1, max_length=250)]


class RetriedOut(Wire):
    count: int
    """How many were named, and are deliveries of this application."""
    changed: int
    """How many are sent again; others are with a worker right now, or their message was expunged."""


class BulkOut(Wire):
    count: int
    """How many were chosen."""
    task: TaskOut | None
    """What does it; null for a dry run."""


@routes.get("/app/{app_id}/delivery")
async def list_deliveries(call: Call, query: DeliveriesQuery) -> Page[DeliveryOut]:
    """List deliveries by state, oldest first unless the other order is asked for."""
    newest, about = query.order is Order.DESCENDING, f"deliveries {call.app.id}"
    reader = Reader(call, about, limit=query.limit, iterator=query.iterator, newest_first=newest)
    found = await call.parts.store.deliveries_page(await _chosen(call, query, query.state), reader.span)
    told = await _told(call, found)
    return reader.page(found, lambda each: Mark(0, each.message_id, each.endpoint_id), lambda each: told[_at(each)])


@routes.get("/app/{app_id}/delivery/{msg_id}/{endpoint_id}")
async def get_delivery(call: Call) -> DeliveryOut:
    """Get the delivery of a message to an endpoint."""
    return await _told_one(call, await _place(call))


@routes.post("/app/{app_id}/delivery/{msg_id}/{endpoint_id}/retry", errors=(409,))
async def retry_delivery(call: Call) -> DeliveryOut:
    """Send it again from the beginning of its schedule."""
    place = await _place(call)
    await _delivery(call, place)
    if not await call.parts.store.retry([place]):
        raise Problem(409, "not_possible", "It is with a worker right now, or its message was expunged.")
    return await _told_one(call, place)


@routes.post("/app/{app_id}/delivery/{msg_id}/{endpoint_id}/cancel", errors=(409,))
async def cancel_delivery(call: Call) -> DeliveryOut:
    """End it, if it waits."""
    place = await _place(call)
    found = await _delivery(call, place)
    if not await call.parts.store.cancel([place]):
        raise Problem(409, "not_possible", f"Only what waits can be cancelled; this one is {found.state}.")
    return await _told_one(call, place)


@routes.post("/app/{app_id}/delivery/retry-these")
async def retry_these_deliveries(call: Call, body: RetryTheseIn) -> RetriedOut:
    """Send these again from the beginning of their schedules, at once."""
    named = dict.fromkeys(Place(each.msg_id, each.endpoint_id) for each in body.deliveries)
    found = [place for place in named if await _owned(call, place)]
    return RetriedOut(count=len(found), changed=await call.parts.store.retry(found) if found else 0)


@routes.post("/app/{app_id}/delivery/retry", status=202, also=(200,))
async def retry_deliveries(call: Call, body: BulkRetryIn) -> BulkOut:
    """Send many again: count first with `dryRun`, then watch the task, or cancel it half-way."""
    chosen = await _chosen(call, body, body.state)
    count = await call.parts.store.count(chosen)
    if body.dry_run:
        call.status = 200
        return BulkOut(count=count, task=None)
    task = await call.parts.tasks.retry(TaskKind.BULK_RETRY, chosen, chosen.endpoint_id or "", count)
    return BulkOut(count=count, task=task_told(task))


@routes.post("/app/{app_id}/delivery/cancel", status=202, also=(200,))
async def cancel_deliveries(call: Call, body: BulkCancelIn) -> BulkOut:
    """Cancel many that wait: count first with `dryRun`."""
    chosen = await _chosen(call, body, [DeliveryState.PENDING])
    count = await call.parts.store.count(chosen)
    if body.dry_run:
        call.status = 200
        return BulkOut(count=count, task=None)
    task = await call.parts.tasks.cancel(chosen, chosen.endpoint_id or "", count)
    return BulkOut(count=count, task=task_told(task))


async def _chosen(
    call: Call, choice: _Choice | BulkRetryIn | BulkCancelIn, states: list[DeliveryState] | None
) -> Chosen:
    endpoint_id = None
    if choice.endpoint_id is not None:
        endpoint = await call.parts.store.endpoint(call.app.id, choice.endpoint_id)
        if endpoint is None:
            raise not_found("endpoint")
        endpoint_id = endpoint.id
    return Chosen(
        call.app.id,
        endpoint_id,
        None if states is None else tuple(dict.fromkeys(states)),
        None if choice.event_types is None else tuple(choice.event_types),
        None if choice.since is None else in_ms(choice.since),
        None if choice.until is None else in_ms(choice.until),
    )


async def _place(call: Call) -> Place:
    return Place((await call.message()).id, (await call.endpoint()).id)


async def _owned(call: Call, place: Place) -> bool:
    found = await call.parts.store.delivery(*place)
    return found is not None and found.app_id == call.app.id


async def _delivery(call: Call, place: Place) -> Delivery:
    found = await call.parts.store.delivery(*place)
    if found is None:
        raise not_found("delivery")
    return found


async def _told_one(call: Call, place: Place) -> DeliveryOut:
    found = await _delivery(call, place)
    return (await _told(call, [found]))[place]


async def _told(call: Call, found: Sequence[Delivery]) -> dict[Place, DeliveryOut]:
    """With what their messages and endpoints are called."""
    store = call.parts.store
    messages = await store.messages(list({each.message_id for each in found})) if found else []
    endpoints = await store.endpoints(list({each.endpoint_id for each in found})) if found else []
    types, urls = {each.id: each.event_type for each in messages}, {each.id: each.url for each in endpoints}
    steps = await next_steps(call, found, endpoints)
    return {
        _at(each): DeliveryOut(
            msg_id=each.message_id,
            endpoint_id=each.endpoint_id,
            event_type=types.get(each.message_id, ""),
            url=urls.get(each.endpoint_id, ""),
            state=each.state,
            attempts=each.attempts,
            reason=steps[_at(each)].reason or each.reason,
            next_attempt=instant_or_none(steps[_at(each)].at_ms),
            created_at=instant(each.created_ms),
            ended_at=instant_or_none(each.ended_ms),
        )
        for each in found
    }


def _at(delivery: Delivery) -> Place:
    return Place(delivery.message_id, delivery.endpoint_id)
