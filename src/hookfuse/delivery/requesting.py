"""A request to an endpoint: its own headers, the payload as it was received, and the signatures over it."""

from __future__ import annotations

from hookfuse.core import signing
from hookfuse.core.sending import Request
from hookfuse.delivery.targets import Target

_CONTENT = ("content-type", "application/json")


def request_to(
    target: Target, message_id: str, payload: bytes, now: float, sign_ed25519: signing.SignEd25519 | None
) -> Request:
    """`target` must have a destination; `now` is Unix seconds."""
    assert target.destination is not None
    headers: tuple[tuple[str, str], ...] = (_CONTENT, *target.headers)
    if target.ring is not None:
        headers += signing.headers(target.ring, message_id, int(now), payload, now, sign_ed25519)
    return Request(target.destination, headers, payload, target.timeout)
