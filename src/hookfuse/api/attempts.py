"""Attempts: the requests that were made, by endpoint and by message."""

from __future__ import annotations

from collections.abc import Sequence

from hookfuse.api.attempt_models import (
    AttemptedQuery,
    AttemptOut,
    AttemptQuery,
    AttemptsQuery,
    MessageAttemptsQuery,
    MessageStatus,
    attempt_told,
)
from hookfuse.api.call import Call, Reader
from hookfuse.api.messages import MessageOut, between, contents_of
from hookfuse.api.messages import told as message_told
from hookfuse.api.problems import not_found
from hookfuse.api.routes import Routes
from hookfuse.api.wire import Page
from hookfuse.core.delivery import Attempt
from hookfuse.core.listing import AttemptFilter
from hookfuse.core.paging import Mark

routes = Routes("Attempts")


@routes.get("/app/{app_id}/attempt/endpoint/{endpoint_id}")
async def list_attempts_by_endpoint(call: Call, query: AttemptsQuery) -> Page[AttemptOut]:
    """List the attempts at an endpoint, newest first."""
    endpoint = await call.endpoint()
    return await _list(call, query, f"attempts {call.app.id} {endpoint.id}", endpoint_id=endpoint.id)


@routes.get("/app/{app_id}/attempt/msg/{msg_id}")
async def list_attempts_by_message(call: Call, query: MessageAttemptsQuery) -> Page[AttemptOut]:
    """List the attempts of a message, newest first."""
    message = await call.message()
    endpoint_id = None
    if query.endpoint_id is not None:
        endpoint = await call.parts.store.endpoint(call.app.id, query.endpoint_id)
        if endpoint is None:
            raise not_found("endpoint")
        endpoint_id = endpoint.id
    about = f"attempts {call.app.id} {message.id}"
    return await _list(call, query, about, endpoint_id=endpoint_id, message_id=message.id)


@routes.get("/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}")
async def get_attempt(call: Call, query: AttemptQuery) -> AttemptOut:
    """Get an attempt."""
    message = await call.message()
    found = await call.parts.store.attempt(message.id, call.id("attempt_id", "attempt"))
    if found is None:
        raise not_found("attempt")
    return attempt_told(found, await _urls(call, [found]))


async def _list(
    call: Call, query: AttemptsQuery, about: str, *, endpoint_id: str | None = None, message_id: str | None = None
) -> Page[AttemptOut]:
    reader = reader_of(call, query, about)
    if query.status not in (None, MessageStatus.SUCCESS, MessageStatus.FAIL):
        # An attempt has ended, whatever its delivery still waits for.
        return Page([], query.iterator, None, done=True)
    chosen = AttemptFilter(
        call.app.id,
        endpoint_id,
        message_id,
        succeeded=None if query.status is None else query.status is MessageStatus.SUCCESS,
        status_class=query.status_code_class,
        channel=query.channel,
        event_types=None if query.event_types is None else tuple(query.event_types),
    )
    found = await call.parts.store.attempts_page(chosen, reader.span)
    urls = await _urls(call, found)
    messages = await _messages(call, found, query) if query.with_msg else {}
    return reader.page(
        found,
        lambda each: Mark(each.at_ms, each.id),
        lambda each: attempt_told(each, urls, messages.get(each.message_id), content=query.with_content),
    )


def reader_of(call: Call, query: AttemptedQuery, about: str) -> Reader:
    after, before = between(query.after, query.before)
    return Reader(
        call, about, limit=query.limit, iterator=query.iterator, newest_first=True, after=after, before=before
    )


async def _urls(call: Call, attempts: Sequence[Attempt]) -> dict[str, str]:
    """Where the endpoints of these attempts are today."""
    ids = list({each.endpoint_id for each in attempts})
    return {each.id: each.url for each in await call.parts.store.endpoints(ids)} if ids else {}


async def _messages(call: Call, attempts: Sequence[Attempt], query: AttemptsQuery) -> dict[str, MessageOut]:
    ids = list({each.message_id for each in attempts})
    contents = await contents_of(call, ids, asked=query.with_content)
    return {each.id: message_told(each, contents.get(each.id)) for each in await call.parts.store.messages(ids)}
