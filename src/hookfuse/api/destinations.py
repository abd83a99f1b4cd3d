"""What became of messages at endpoints, seen from either side."""

from __future__ import annotations

from hookfuse.api.applications import ListQuery, Order
from hookfuse.api.attempt_models import (
    STATES,
    AttemptedQuery,
    EndpointMessageOut,
    MessageEndpointOut,
    endpoint_message,
    message_endpoint,
)
from hookfuse.api.attempts import reader_of
from hookfuse.api.call import Call, Reader
from hookfuse.api.endpoint_models import told as endpoint_told
from hookfuse.api.messages import contents_of
from hookfuse.api.messages import told as message_told
from hookfuse.api.next_steps import next_steps
from hookfuse.api.problems import Problem
from hookfuse.api.routes import Routes
from hookfuse.api.wire import Nothing, Page
from hookfuse.core.delivery import Place
from hookfuse.core.listing import AttemptFilter
from hookfuse.core.message import Message
from hookfuse.core.paging import Mark

routes = Routes("Attempts")


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/msg")
async def list_attempted_messages(call: Call, query: AttemptedQuery) -> Page[EndpointMessageOut]:
    """List the messages that were tried at an endpoint, by their last attempt, newest first."""
    endpoint = await call.endpoint()
    reader = reader_of(call, query, f"attempted {call.app.id} {endpoint.id}")
    types = None if query.event_types is None else tuple(query.event_types)
    chosen = AttemptFilter(call.app.id, endpoint.id, channel=query.channel, event_types=types)
    state = None if query.status is None else STATES[query.status]
    found = await call.parts.store.attempted_page(chosen, state, reader.span)
    ids = [attempt.message_id for attempt, _ in found]
    messages = {each.id: each for each in await call.parts.store.messages(ids)}
    contents = await contents_of(call, ids, asked=query.with_content)
    steps = await next_steps(call, [delivery for _, delivery in found], [endpoint])
    return reader.page(
        # A message that was pruned between two reads has nothing to be told.
        [row for row in found if row[0].message_id in messages],
        lambda row: Mark(row[0].at_ms, row[0].id),
        lambda row: endpoint_message(
            message_told(messages[row[0].message_id], contents.get(row[0].message_id)),
            row[1],
            steps[Place(row[0].message_id, endpoint.id)],
        ),
    )


@routes.get("/app/{app_id}/msg/{msg_id}/endpoint")
async def list_attempted_destinations(call: Call, query: ListQuery) -> Page[MessageEndpointOut]:
    """List the endpoints that a message goes to, and what became of it there."""
    message = await call.message()
    newest = query.order is Order.DESCENDING
    about = f"destinations {message.id}"
    reader = Reader(call, about, limit=query.limit, iterator=query.iterator, newest_first=newest)
    found = await call.parts.store.destinations_page(message.id, reader.span)
    endpoints = {each.id: each for each in await call.parts.store.endpoints([each.endpoint_id for each in found])}
    steps = await next_steps(call, found, endpoints.values())
    return reader.page(
        found,
        lambda each: Mark(0, each.endpoint_id),
        lambda each: message_endpoint(
            endpoint_told(endpoints[each.endpoint_id]), each, steps[Place(message.id, each.endpoint_id)]
        ),
    )


@routes.post("/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend", status=202, errors=(409,))
async def resend_message(call: Call) -> Nothing:
    """Send a message to an endpoint again, or for the first time."""
    message, endpoint, store = await call.message(), await call.endpoint(), call.parts.store
    sent = await store.retry([Place(message.id, endpoint.id)])
    if not sent and not await store.add_deliveries(endpoint.id, [message.id]):
        raise _cannot_send(message)
    return Nothing()


def _cannot_send(message: Message) -> Problem:
    if message.payload is None:
        return Problem(409, "expunged", "The content of this message was expunged; there is nothing to send.")
    return Problem(409, "in_flight", "A worker is sending this message to the endpoint right now.")
