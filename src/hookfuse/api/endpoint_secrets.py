"""What endpoints are signed and sent with: their secret, and headers of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from hookfuse.api.call import Call
from hookfuse.api.endpoint_models import SecretText
from hookfuse.api.problems import field, not_found
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Wire
from hookfuse.core.bounds import DAY
from hookfuse.core.endpoint import Endpoint
from hookfuse.core.secret import SecretRing

routes = Routes("Endpoints")

_SHOWN_HEADERS = frozenset({"accept", "accept-language", "user-agent", "x-request-source"})

Headers = Annotated[dict[str, str], Meta(max_length=32)]


class EndpointSecretOut(Wire):
    key: str


class EndpointSecretRotateIn(Wire):
    key: SecretText | None = None
    """The new secret; left out: one is made."""
    grace_period_seconds: Annotated[int, Meta(ge=0, le=7 * 86_400)] = int(DAY)
    """How long the old secret signs beside the new one."""


class EndpointHeadersIn(Wire):
    headers: Headers


class EndpointHeadersPatchIn(Wire):
    headers: Headers = msgspec.field(default_factory=dict)
    delete_headers: Annotated[list[str], Meta(max_length=32)] = msgspec.field(default_factory=list)


class EndpointHeadersOut(Wire):
    """Values are shown only of headers that cannot be secrets; of the others there is the name, in `sensitive`."""

    headers: dict[str, str]
    sensitive: list[str]


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/secret", needs=Needs.WRITE, audited=True)
async def get_endpoint_secret(call: Call) -> EndpointSecretOut:
    """Get the secret that signs. It needs a key that may write, and the audit log tells of it."""
    ring = call.parts.vault.open_ring(await call.endpoint())
    if ring is None:
        raise not_found("secret")
    return EndpointSecretOut(key=ring.current.text)


@routes.post("/app/{app_id}/endpoint/{endpoint_id}/secret/rotate")
async def rotate_endpoint_secret(call: Call, body: EndpointSecretRotateIn) -> EndpointSecretOut:
    """Sign with a new secret, and beside it with the old one until its time is over."""
    vault = call.parts.vault
    with field("key"):
        new = vault.secret(body.key)

    def rotate(found: Endpoint) -> bytes:
        ring = vault.open_ring(found)
        with field("gracePeriodSeconds"):
            rotated = SecretRing(new) if ring is None else ring.rotated(new, time.time(), body.grace_period_seconds)
        return vault.seal_ring(found.id, rotated)

    await _change(call, "secret", rotate)
    return EndpointSecretOut(key=new.text)


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/headers")
async def get_endpoint_headers(call: Call) -> EndpointHeadersOut:
    """Get the custom headers of an endpoint."""
    headers = call.parts.vault.open_headers(await call.endpoint())
    shown = {name: value for name, value in headers.items() if name.lower() in _SHOWN_HEADERS}
    return EndpointHeadersOut(headers=shown, sensitive=sorted(headers.keys() - shown.keys()))


@routes.put("/app/{app_id}/endpoint/{endpoint_id}/headers", status=204)
async def update_endpoint_headers(call: Call, body: EndpointHeadersIn) -> None:
    """Replace the custom headers of an endpoint."""
    await _change(call, "headers", lambda found: _sealed_headers(call, found, body.headers))


@routes.patch("/app/{app_id}/endpoint/{endpoint_id}/headers", status=204)
async def patch_endpoint_headers(call: Call, body: EndpointHeadersPatchIn) -> None:
    """Add, change and remove custom headers; a name in any case means the same header."""
    gone = {name.lower() for name in (*body.delete_headers, *body.headers)}

    def patch(found: Endpoint) -> bytes:
        kept = {name: value for name, value in call.parts.vault.open_headers(found).items() if name.lower() not in gone}
        return _sealed_headers(call, found, {**kept, **body.headers})

    await _change(call, "headers", patch)


def _sealed_headers(call: Call, found: Endpoint, headers: dict[str, str]) -> bytes:
    with field("headers"):
        return call.parts.vault.seal_headers(found.id, headers)


async def _change(call: Call, name: str, make: Callable[[Endpoint], bytes]) -> None:
    """Replace what was read by what is made of it, and begin again if someone else was faster."""
    while True:
        found = await call.endpoint()
        if await call.parts.store.change_endpoint(found.id, {name: make(found)}, version=found.version) is not None:
            return
