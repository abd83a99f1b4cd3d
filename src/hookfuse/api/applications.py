"""Applications: one for each tenant."""

from __future__ import annotations

import random
import time
from enum import StrEnum
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from hookfuse.api.call import Call, Reader
from hookfuse.api.forgetting import forget_breakers_of
from hookfuse.api.problems import field, forbidden, not_found
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import NO_NUL, Instant, Iterator, Limit, Metadata, Page, Uid, Wire, instant, instant_or_none
from hookfuse.core.access import Role
from hookfuse.core.endpoint import NAME_LENGTH, Application
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, check_uid, make_id
from hookfuse.core.paging import Mark

routes = Routes("Applications")

AppName = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH, pattern=NO_NUL)]


class Order(StrEnum):
    ASCENDING = "ascending"
    DESCENDING = "descending"


class ListQuery(Wire, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None
    order: Order = Order.ASCENDING


class ApplicationIn(Wire):
    """An application to be made or replaced."""

    name: AppName
    uid: Uid | None = None
    metadata: Metadata | None = None
    throttle_rate: None = None
    """Not supported; set it at the endpoints."""
    rate_limit: None = None


class ApplicationPatch(Wire):
    """Fields that are left out stay as they are; a uid of null is taken away."""

    name: AppName | UnsetType = UNSET
    uid: Uid | UnsetType | None = UNSET
    metadata: Metadata | UnsetType = UNSET


class ApplicationOut(Wire):
    id: str
    name: str
    uid: str | None
    metadata: dict[str, str]
    throttle_rate: int | None
    rate_limit: int | None
    paused_at: Instant | None
    """Since when nothing is sent to any of its endpoints."""
    created_at: Instant
    updated_at: Instant


class CreateQuery(Wire, rename=None):
    get_if_exists: bool = False


@routes.get("/app", needs=Needs.OVERVIEW)
async def list_applications(call: Call, query: ListQuery) -> Page[ApplicationOut]:
    """List applications."""
    newest = query.order is Order.DESCENDING
    reader = Reader(call, "applications", limit=query.limit, iterator=query.iterator, newest_first=newest)
    found = await call.parts.store.applications_page(reader.span)
    return reader.page(found, lambda each: Mark(0, each.id), told)


@routes.post("/app", needs=Needs.ADMIN, status=201, also=(200,), errors=(409,))
async def create_application(call: Call, body: ApplicationIn, query: CreateQuery) -> ApplicationOut:
    """Make an application; with `get_if_exists`, return the one that has this uid already."""
    if query.get_if_exists and body.uid is not None:
        found = await call.parts.store.application(body.uid)
        if found is not None:
            call.status = 200
            return told(found)
    return told(await make(call, body, body.uid))


@routes.get("/app/{app_id}")
async def get_application(call: Call) -> ApplicationOut:
    """Get an application."""
    return told(call.app)


@routes.put("/app/{app_id}", finds_app=False, also=(201,), errors=(409,))
async def update_application(call: Call, body: ApplicationIn) -> ApplicationOut:
    """Replace an application, or make it with this uid if there is none."""
    if await call.find_app() is not None:
        return told(await _change(call, {"name": body.name, "uid": body.uid, "metadata": body.metadata or {}}))
    if call.key.role is not Role.ADMIN:
        raise not_found("application")
    call.status = 201
    return told(await make(call, body, body.uid or call.path["app_id"]))


@routes.patch("/app/{app_id}", errors=(409,))
async def patch_application(call: Call, body: ApplicationPatch) -> ApplicationOut:
    """Change some fields of an application."""
    fields = {"name": body.name, "uid": body.uid, "metadata": body.metadata}
    return told(await _change(call, {name: value for name, value in fields.items() if value is not UNSET}))


@routes.delete("/app/{app_id}")
async def delete_application(call: Call) -> None:
    """Delete an application with its endpoints; what still waits is cancelled."""
    if call.key.role is not Role.ADMIN:
        raise forbidden()
    await call.parts.store.delete_application(call.app.id)
    await forget_breakers_of(call, f"{call.app.id}/")


@routes.post("/app/{app_id}/pause")
async def pause_application(call: Call) -> ApplicationOut:
    """Send nothing to any endpoint of the application; messages are accepted and wait."""
    return await _paused(call, True)


@routes.post("/app/{app_id}/resume")
async def resume_application(call: Call) -> ApplicationOut:
    """Send again what waits since the application was paused."""
    return await _paused(call, False)


async def make(call: Call, body: ApplicationIn, uid: str | None) -> Application:
    if uid is not None:
        with field("uid"):
            check_uid(IdKind.APP, uid)
    id_ = make_id(IdKind.APP, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
    call.touched.append(id_)
    return await call.parts.store.add_application(Application(id_, body.name, uid, body.metadata or {}))


async def _change(call: Call, changes: dict[str, Any]) -> Application:
    if changes.get("uid") is not None:
        with field("uid"):
            check_uid(IdKind.APP, changes["uid"])
    found = await call.parts.store.change_application(call.app.id, changes) if changes else call.app
    if found is None:
        raise not_found("application")
    return found


async def _paused(call: Call, paused: bool) -> ApplicationOut:
    found = await call.parts.store.pause_application(call.app.id, paused)
    if found is None:
        raise not_found("application")
    return told(found)


def told(application: Application) -> ApplicationOut:
    return ApplicationOut(
        id=application.id,
        name=application.name,
        uid=application.uid,
        metadata=dict(application.metadata),
        throttle_rate=None,
        rate_limit=None,
        paused_at=instant_or_none(application.paused_ms),
        created_at=instant(application.created_ms),
        updated_at=instant(application.updated_ms),
    )
