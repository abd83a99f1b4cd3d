"""Messages that were accepted. Accepting them is in `ingest.py`."""

from __future__ import annotations

import random
import time
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from hookfuse.api.call import Call, Reader
from hookfuse.api.problems import not_found
from hookfuse.api.routes import Routes
from hookfuse.api.wire import (
    Channel,
    EventTypeName,
    EventTypeNames,
    Instant,
    Iterator,
    Limit,
    Page,
    Wire,
    in_ms,
    instant,
    instant_or_none,
)
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.listing import MessageFilter
from hookfuse.core.message import Message, NewMessage, Refused
from hookfuse.core.paging import FIRST, LAST, Mark

routes = Routes("Messages")

NO_CONTENT = msgspec.Raw(b"{}")


class MessageOut(Wire):
    id: str
    event_type: str
    event_id: str | None
    payload: msgspec.Raw
    """Byte for byte as it was received; an empty object if it was not asked for, or expunged."""
    channels: list[str] | None
    tags: list[str] | None
    timestamp: Instant
    deliver_at: Instant | None


class ContentQuery(Wire, rename=None):
    with_content: bool = True


class MessagesQuery(ContentQuery, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None
    channel: Channel | None = None
    event_types: EventTypeNames | None = None
    before: Instant | None = None
    after: Instant | None = None


class EventExampleIn(Wire):
    event_type: EventTypeName
    payload: msgspec.Raw | None = None
    """What to send; left out: an example from the schema of the event type."""
    example_index: Annotated[int, Meta(ge=0, le=1000)] = 0


@routes.get("/app/{app_id}/msg")
async def list_messages(call: Call, query: MessagesQuery) -> Page[MessageOut]:
    """List the messages of an application, newest first."""
    about = f"messages {call.app.id}"
    after, before = between(query.after, query.before)
    reader = Reader(
        call, about, limit=query.limit, iterator=query.iterator, newest_first=True, after=after, before=before
    )
    types = None if query.event_types is None else tuple(query.event_types)
    chosen = MessageFilter(call.app.id, query.channel, types)
    found = await call.parts.store.messages_page(chosen, reader.span)
    contents = await contents_of(call, [each.id for each in found], asked=query.with_content)
    return reader.page(
        found, lambda each: Mark(each.created_ms, each.id), lambda each: told(each, contents.get(each.id))
    )


@routes.get("/app/{app_id}/msg/{msg_id}")
async def get_message(call: Call, query: ContentQuery) -> MessageOut:
    """Get a message by its id or its `eventId`."""
    found = await call.message()
    return told(found, found.payload if query.with_content else None)


@routes.delete("/app/{app_id}/msg/{msg_id}/content")
async def expunge_message(call: Call) -> None:
    """Forget the content of a message; what still waits is cancelled, its history stays."""
    found = await call.message()
    await call.parts.store.expunge(call.app.id, found.id)


@routes.post("/app/{app_id}/endpoint/{endpoint_id}/send-example", status=202)
async def send_example(call: Call, body: EventExampleIn) -> MessageOut:
    """Send an example to this endpoint alone, whatever it filters."""
    endpoint = await call.endpoint()
    payload = bytes(body.payload) if body.payload is not None else await _example(call, body)
    id_ = make_id(IdKind.MESSAGE, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
    call.touched.append(id_)
    answer = await call.parts.store.accept_for(NewMessage(id_, call.app.id, body.event_type, payload), endpoint.id)
    if isinstance(answer, Refused):
        raise not_found("endpoint")
    return told(Message(id_, call.app.id, body.event_type, payload, None, (), None, answer.created_ms), payload)


async def _example(call: Call, body: EventExampleIn) -> bytes:
    """An example of the newest schema, or one that says what it is."""
    found = await call.parts.store.event_type(body.event_type)
    schemas = {} if found is None or found.schemas is None else found.schemas
    newest: Any = schemas[max(schemas)] if schemas else None
    examples = newest.get("examples") if isinstance(newest, dict) else None
    if isinstance(examples, list) and examples:
        return msgspec.json.encode(examples[min(body.example_index, len(examples) - 1)])
    return msgspec.json.encode({"eventType": body.event_type, "example": True})


async def contents_of(call: Call, ids: list[str], *, asked: bool) -> dict[str, bytes]:
    return dict(await call.parts.store.payloads(ids)) if asked and ids else {}


def between(after: Instant | None, before: Instant | None) -> tuple[Mark, Mark]:
    """The marks around a time, its ends excluded."""
    return (
        FIRST if after is None else Mark(in_ms(after), "~"),
        LAST if before is None else Mark(in_ms(before), ""),
    )


def told(message: Message, content: bytes | None) -> MessageOut:
    return MessageOut(
        id=message.id,
        event_type=message.event_type,
        event_id=message.uid,
        payload=NO_CONTENT if content is None else msgspec.Raw(content),
        channels=list(message.channels) or None,
        tags=None,
        timestamp=instant(message.created_ms),
        deliver_at=instant_or_none(message.deliver_ms),
    )
