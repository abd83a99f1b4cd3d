"""Endpoints: where the messages of an application go."""

from __future__ import annotations

import random
import time
from typing import Any

from msgspec import UNSET

from hookfuse.api.applications import ListQuery, Order
from hookfuse.api.call import Call, Reader
from hookfuse.api.endpoint_models import EndpointIn, EndpointOut, EndpointPatch, EndpointUpsert, told
from hookfuse.api.forgetting import forget_breakers_of
from hookfuse.api.problems import field, not_found
from hookfuse.api.routes import Routes
from hookfuse.api.wire import Page
from hookfuse.core import bounds
from hookfuse.core.destination import Destination
from hookfuse.core.endpoint import TIMEOUT_MS, Endpoint, Offer, Stop
from hookfuse.core.history import BY_HAND, disabled_itself
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, check_uid, make_id
from hookfuse.core.paging import Mark
from hookfuse.core.secret import SecretRing
from hookfuse.core.state import Override, State
from hookfuse.delivery.keeper import keep_standing

routes = Routes("Endpoints")


@routes.get("/app/{app_id}/endpoint")
async def list_endpoints(call: Call, query: ListQuery) -> Page[EndpointOut]:
    """List the endpoints of an application."""
    newest = query.order is Order.DESCENDING
    about = f"endpoints {call.app.id}"
    reader = Reader(call, about, limit=query.limit, iterator=query.iterator, newest_first=newest)
    found = await call.parts.store.endpoints_page(call.app.id, reader.span)
    return reader.page(found, lambda each: Mark(0, each.id), told)


@routes.post("/app/{app_id}/endpoint", status=201, errors=(409,))
async def create_endpoint(call: Call, body: EndpointIn) -> EndpointOut:
    """Make an endpoint. Its name is not resolved; a destination that is never dialled is refused."""
    return told(await _make(call, body, body.uid, body.secret, body.headers or {}))


@routes.get("/app/{app_id}/endpoint/{endpoint_id}")
async def get_endpoint(call: Call) -> EndpointOut:
    """Get an endpoint."""
    return told(await call.endpoint())


@routes.put("/app/{app_id}/endpoint/{endpoint_id}", also=(201,), errors=(409,))
async def update_endpoint(call: Call, body: EndpointUpsert) -> EndpointOut:
    """Replace an endpoint, or make it with this uid if there is none. Its secret and headers stay."""
    found = await call.find_endpoint()
    if found is None:
        call.status = 201
        return told(await _make(call, body, body.uid or call.path["endpoint_id"], None, {}))
    return told(await _change(call, found, _settings(call, body) | {"uid": body.uid}, body.disabled))


@routes.patch("/app/{app_id}/endpoint/{endpoint_id}", errors=(409,))
async def patch_endpoint(call: Call, body: EndpointPatch) -> EndpointOut:
    """Change some fields of an endpoint."""
    found = await call.endpoint()
    disabled = None if body.disabled is UNSET else body.disabled
    return told(await _change(call, found, _settings(call, body), disabled))


@routes.delete("/app/{app_id}/endpoint/{endpoint_id}")
async def delete_endpoint(call: Call) -> None:
    """Delete an endpoint; what still waits for it is cancelled."""
    endpoint = await call.endpoint()
    await call.parts.store.delete_endpoint(endpoint.id)
    await forget_breakers_of(call, endpoint.key)


@routes.post("/app/{app_id}/endpoint/{endpoint_id}/pause")
async def pause_endpoint(call: Call) -> EndpointOut:
    """Send nothing to the endpoint; its messages are kept and wait."""
    return told(_there(await call.parts.store.stop_endpoint((await call.endpoint()).id, Stop.PAUSED)))


@routes.post("/app/{app_id}/endpoint/{endpoint_id}/resume")
async def resume_endpoint(call: Call) -> EndpointOut:
    """Send again what waits since the endpoint was paused."""
    return told(_there(await call.parts.store.start_endpoint((await call.endpoint()).id, Stop.PAUSED)))


async def _make(
    call: Call, body: EndpointUpsert, uid: str | None, secret: str | None, headers: dict[str, str]
) -> Endpoint:
    vault = call.parts.vault
    id_ = make_id(IdKind.ENDPOINT, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
    if uid is not None:
        with field("uid"):
            check_uid(IdKind.ENDPOINT, uid)
    with field("secret"):
        ring = SecretRing(vault.secret(secret))
    with field("headers"):
        sealed_headers = vault.seal_headers(id_, headers)
    settings = _settings(call, body) | {"headers": sealed_headers, "secret": vault.seal_ring(id_, ring)}
    if body.disabled:
        # Stopped from the beginning: a message accepted meanwhile must not be sent.
        settings |= {"stop": Stop.DISABLED, "disabled_reason": BY_HAND}
    call.touched.append(id_)
    return await call.parts.store.add_endpoint(Endpoint(id_, call.app.id, uid=uid, **settings))


async def _change(call: Call, found: Endpoint, changes: dict[str, Any], disabled: bool | None) -> Endpoint:
    if changes.get("uid") is not None:
        with field("uid"):
            check_uid(IdKind.ENDPOINT, changes["uid"])
    store = call.parts.store
    moved = "url" in changes and changes["url"] != found.url
    enables = disabled is False and not found.enabled
    if moved or enables:
        # First: what cannot reach the breaker must not change the endpoint either.
        await call.parts.breakers.inspect(found.key)
    if moved:
        changes |= {"flag": "", "offer": "" if found.enabled else Offer.URL_CHANGED}
    changed = _there(await store.change_endpoint(found.id, changes)) if changes else found
    if disabled and changed.enabled:
        return _there(await store.stop_endpoint(found.id, Stop.DISABLED, BY_HAND))
    if enables or (moved and changed.enabled):
        await _start_clean(call, changed, asked=disabled is False)
    # The endpoint last: until then nothing is sent, and to ask again does what is missing.
    return _there(await store.start_endpoint(found.id, Stop.DISABLED)) if enables else changed


async def _start_clean(call: Call, endpoint: Endpoint, *, asked: bool) -> None:
    """What was held against an endpoint before it was mended must not disable it again at once.

    A new URL alone enables no breaker: someone has to have `asked`. What an operator said of it stays while the
    endpoint itself is enabled.
    """
    await call.parts.targets.read([endpoint.id])
    breakers, key = call.parts.breakers, endpoint.key
    seen = await breakers.inspect(key)
    if seen.state is State.DISABLED:
        if asked and (not endpoint.enabled or disabled_itself(seen)):
            await breakers.enable(key, reason="the endpoint was enabled", actor=call.key.id)
    elif endpoint.breaker_key is None and seen.override is Override.NONE:
        await breakers.reset(key, reason="the endpoint was mended", actor=call.key.id)
    await keep_standing(call.parts.store, call.parts.breakers, key)
    await call.parts.store.unblock([endpoint.id])


def _settings(call: Call, body: EndpointUpsert | EndpointPatch) -> dict[str, Any]:
    """The fields of an endpoint that were given, checked."""
    given: dict[str, Any] = {
        "url": body.url,
        "description": body.description,
        "uid": body.uid,
        "metadata": {} if body.metadata is None else body.metadata,
        "event_types": _either(body.event_types, body.filter_types),
        "channels": body.channels,
        "rate_limit": _either(body.throttle_rate, body.rate_limit),
        "cap": body.cap,
        "fifo": body.fifo,
        "breaker_key": body.breaker_key,
    }
    given = {name: value for name, value in given.items() if value is not UNSET}
    if isinstance(body, EndpointUpsert):
        del given["uid"]
    if "url" in given:
        with field("url"):
            given["url"] = Destination.parse(given["url"], networks=call.parts.networks).url
    if body.timeout is not UNSET:
        given["timeout_ms"] = _timeout_ms(body.timeout, call.parts.longest_timeout)
    for name in ("event_types", "channels"):
        if given.get(name) is not None:
            given[name] = tuple(dict.fromkeys(given[name]))
    return given


def _timeout_ms(given: float | None, longest: float) -> int:
    if given is None:
        return min(TIMEOUT_MS, bounds.milliseconds(longest))
    with field("timeout"):
        return bounds.milliseconds(bounds.seconds("timeout", given, 0.1, longest))


def _either(value: Any, other: Any) -> Any:
    """Of two names for one field the one that was used."""
    return other if value is UNSET or (value is None and other is not UNSET) else value


def _there(endpoint: Endpoint | None) -> Endpoint:
    if endpoint is None:
        raise not_found("endpoint")
    return endpoint
