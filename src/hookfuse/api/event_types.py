"""Event types. Messages of types that nobody described are accepted all the same."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from hookfuse.api.applications import ListQuery, Order
from hookfuse.api.call import Call, Reader
from hookfuse.api.problems import not_found
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import EventTypeName, Instant, Page, Text, Wire, instant
from hookfuse.core.catalog import EventType
from hookfuse.core.paging import Mark

routes = Routes("Event types")

Schemas = dict[str, Any]
Flags = Annotated[list[Annotated[str, Meta(min_length=1, max_length=256)]], Meta(max_length=50)]
Group = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[a-zA-Z0-9\-_.]+$")]


class EventTypeUpsert(Wire):
    description: Text
    archived: bool = False
    deprecated: bool = False
    schemas: Schemas | None = None
    group_name: Group | None = None
    feature_flags: Flags | None = None


class EventTypeIn(EventTypeUpsert, kw_only=True):
    name: EventTypeName


class EventTypePatch(Wire):
    """Fields that are left out stay as they are."""

    description: Text | UnsetType = UNSET
    archived: bool | UnsetType = UNSET
    deprecated: bool | UnsetType = UNSET
    schemas: Schemas | UnsetType | None = UNSET
    group_name: Group | UnsetType | None = UNSET
    feature_flags: Flags | UnsetType | None = UNSET


class EventTypeOut(Wire):
    name: str
    description: str
    archived: bool
    deprecated: bool
    schemas: Schemas | None
    group_name: str | None
    feature_flags: list[str] | None
    created_at: Instant
    updated_at: Instant


class EventTypesQuery(ListQuery, rename=None):
    include_archived: bool = False
    with_content: bool = False


class DeleteQuery(Wire, rename=None):
    expunge: bool = False


@routes.get("/event-type")
async def list_event_types(call: Call, query: EventTypesQuery) -> Page[EventTypeOut]:
    """List event types; their schemas only `with_content`."""
    newest = query.order is Order.DESCENDING
    reader = Reader(call, "event types", limit=query.limit, iterator=query.iterator, newest_first=newest)
    found = await call.parts.store.event_types_page(reader.span, archived=query.include_archived)
    return reader.page(found, lambda each: Mark(0, each.name), lambda each: told(each, content=query.with_content))


@routes.post("/event-type", needs=Needs.ADMIN, status=201, errors=(409,))
async def create_event_type(call: Call, body: EventTypeIn) -> EventTypeOut:
    """Describe an event type; the name of an archived one may be used again."""
    call.touched.append(body.name)
    return told(await call.parts.store.add_event_type(EventType(body.name, **_values(body))))


@routes.get("/event-type/{event_type_name}")
async def get_event_type(call: Call) -> EventTypeOut:
    """Get an event type."""
    return told(_there(await call.parts.store.event_type(_name(call))))


@routes.put("/event-type/{event_type_name}", needs=Needs.ADMIN, also=(201,), errors=(409,))
async def update_event_type(call: Call, body: EventTypeUpsert) -> EventTypeOut:
    """Replace the description of an event type, or make it."""
    name = _name(call)
    found = await call.parts.store.change_event_type(name, _values(body))
    if found is None:
        call.status = 201
        found = await call.parts.store.add_event_type(EventType(name, **_values(body)))
    return told(found)


@routes.patch("/event-type/{event_type_name}", needs=Needs.ADMIN)
async def patch_event_type(call: Call, body: EventTypePatch) -> EventTypeOut:
    """Change some fields of an event type."""
    return told(_there(await call.parts.store.change_event_type(_name(call), _values(body))))


@routes.delete("/event-type/{event_type_name}", needs=Needs.ADMIN)
async def delete_event_type(call: Call, query: DeleteQuery) -> None:
    """Archive an event type; with `expunge`, forget it."""
    name = _name(call)
    if query.expunge:
        done = await call.parts.store.delete_event_type(name)
    else:
        done = await call.parts.store.change_event_type(name, {"archived": True}) is not None
    if not done:
        raise not_found("event type")


def _name(call: Call) -> str:
    return call.id("event_type_name", "event type")


def _values(body: EventTypeUpsert | EventTypePatch) -> dict[str, Any]:
    given: dict[str, Any] = {
        "description": body.description,
        "archived": body.archived,
        "deprecated": body.deprecated,
        "schemas": body.schemas,
        "group_name": body.group_name,
        "feature_flags": body.feature_flags,
    }
    given = {name: value for name, value in given.items() if value is not UNSET}
    if isinstance(given.get("feature_flags"), list):
        given["feature_flags"] = tuple(given["feature_flags"])
    return given


def _there(event_type: EventType | None) -> EventType:
    if event_type is None:
        raise not_found("event type")
    return event_type


def told(event_type: EventType, *, content: bool = True) -> EventTypeOut:
    flags = event_type.feature_flags
    schemas = event_type.schemas
    return EventTypeOut(
        name=event_type.name,
        description=event_type.description,
        archived=event_type.archived,
        deprecated=event_type.deprecated,
        schemas=dict(schemas) if content and schemas is not None else None,
        group_name=event_type.group_name,
        feature_flags=None if flags is None else list(flags),
        created_at=instant(event_type.created_ms),
        updated_at=instant(event_type.updated_ms),
    )
