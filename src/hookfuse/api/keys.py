"""API keys, and what was done with them."""

from __future__ import annotations

import os
import random
import time
from typing import Annotated, Any

from msgspec import Meta

from hookfuse.api.applications import ListQuery, Order
from hookfuse.api.call import Call, Reader
from hookfuse.api.problems import invalid, not_found
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Instant, Page, Uid, Wire, instant, instant_or_none
from hookfuse.core.access import RANDOM_BYTES, ApiKey, Role, hash_key, make_key_text
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.paging import Mark
from hookfuse.core.record import AuditEntry
from hookfuse.ports.service import Keyring

routes = Routes("Keys")


class KeyIn(Wire):
    name: Annotated[str, Meta(min_length=1, max_length=256)]
    role: Role
    """admin: everything. app: everything within one application. read: looking only."""
    app_id: Uid | None = None
    """The application, by id or uid: needed by the role app, possible for read."""


class KeyOut(Wire):
    id: str
    name: str
    role: Role
    app_id: str | None
    created_at: Instant
    revoked_at: Instant | None
    last_used_at: Instant | None
    """To about a minute."""


class NewKeyOut(KeyOut):
    key: str
    """The key itself. It is shown this once and kept nowhere."""


class AuditEntryOut(Wire):
    id: str
    actor: str
    """The key that did it."""
    action: str
    subject: str
    app_id: str | None
    detail: str
    """Which fields were given."""
    at: Instant


class AuditQuery(ListQuery, rename=None):
    order: Order = Order.DESCENDING


@routes.post("/key", needs=Needs.ADMIN, status=201, errors=(404,))
async def create_key(call: Call, body: KeyIn) -> NewKeyOut:
    """Make a key; the answer shows it once."""
    app_id = None
    if body.app_id is not None:
        application = await call.parts.store.application(body.app_id)
        if application is None:
            raise not_found("application")
        app_id = application.id
    if (body.role is Role.APP and app_id is None) or (body.role is Role.ADMIN and app_id is not None):
        raise invalid("A key of the role app names an application, one of the role admin none.", "body", "appId")
    key, text = _draw_key(body.role, body.name, app_id)
    call.touched.append(key.id)
    return NewKeyOut(**_fields(await call.parts.store.add_key(key)), key=text)


@routes.get("/key", needs=Needs.ADMIN)
async def list_keys(call: Call, query: ListQuery) -> Page[KeyOut]:
    """List all keys, revoked ones too."""
    newest = query.order is Order.DESCENDING
    reader = Reader(call, "keys", limit=query.limit, iterator=query.iterator, newest_first=newest)
    found = await call.parts.store.keys_page(None, reader.span)
    return reader.page(found, lambda each: Mark(0, each.id), lambda each: KeyOut(**_fields(each)))


@routes.get("/key/self")
async def get_own_key(call: Call) -> KeyOut:
    """Get the key that asks: what it may do, and where."""
    return KeyOut(**_fields(call.key))


@routes.delete("/key/{key_id}", needs=Needs.ADMIN)
async def revoke_key(call: Call) -> None:
    """Revoke a key: it is refused here at once, and everywhere within five seconds."""
    id_ = call.id("key_id", "key")
    if await call.parts.store.key(id_) is None:
        raise not_found("key")
    await call.parts.store.revoke_key(id_)
    call.parts.doorkeeper.forget(id_)


@routes.get("/audit", needs=Needs.ADMIN)
async def list_audit(call: Call, query: AuditQuery) -> Page[AuditEntryOut]:
    """List what was changed, by whom and when, newest first."""
    return await _audit(call, query, None)


@routes.get("/app/{app_id}/audit")
async def list_application_audit(call: Call, query: AuditQuery) -> Page[AuditEntryOut]:
    """List what was changed in an application, newest first."""
    return await _audit(call, query, call.app.id)


async def make_key(keyring: Keyring, role: Role, name: str, app_id: str | None = None) -> tuple[ApiKey, str]:
    """A new key and its text."""
    key, text = _draw_key(role, name, app_id)
    return await keyring.add_key(key), text


async def make_first_key(keyring: Keyring) -> str | None:
    """The text of a new admin key if there is no key yet; it is stored nowhere and cannot be shown again."""
    key, text = _draw_key(Role.ADMIN, "first", None)
    return text if await keyring.add_first_key(key) else None


def _draw_key(role: Role, name: str, app_id: str | None) -> tuple[ApiKey, str]:
    text = make_key_text(role, os.urandom(RANDOM_BYTES))
    id_ = make_id(IdKind.KEY, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
    return ApiKey(id_, role, name, hash_key(text), app_id), text


async def _audit(call: Call, query: AuditQuery, app_id: str | None) -> Page[AuditEntryOut]:
    newest = query.order is Order.DESCENDING
    reader = Reader(call, f"audit {app_id}", limit=query.limit, iterator=query.iterator, newest_first=newest)
    found = await call.parts.store.audit_page(app_id, reader.span)
    return reader.page(found, lambda each: Mark(0, each.id), _audit_told)


def _audit_told(entry: AuditEntry) -> AuditEntryOut:
    return AuditEntryOut(
        id=entry.id,
        actor=entry.actor,
        action=entry.action,
        subject=entry.subject,
        app_id=entry.app_id,
        detail=entry.detail,
        at=instant(entry.at_ms),
    )


def _fields(key: ApiKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "name": key.name,
        "role": key.role,
        "app_id": key.app_id,
        "created_at": instant(key.created_ms),
        "revoked_at": instant_or_none(key.revoked_ms),
        "last_used_at": instant_or_none(key.used_ms),
    }
