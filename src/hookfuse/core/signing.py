"""Signing webhooks, and verifying them, as Standard Webhooks says.

What is signed is `id.timestamp.body`. The signature header carries one signature per secret that signs at the time,
divided by spaces, so receivers can change over to a new secret without losing a message.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hmac import compare_digest
from typing import TypeAlias, assert_never

from hookfuse.core.secret import PublicKey, Scheme, Secret, SecretRing
from hookfuse.errors import InvalidInput, shown

ID_HEADER = "webhook-id"
TIMESTAMP_HEADER = "webhook-timestamp"
SIGNATURE_HEADER = "webhook-signature"
IDEMPOTENCY_HEADER = "x-idempotency-key"
TOLERANCE = 300.0

SignEd25519: TypeAlias = Callable[[bytes, bytes], bytes]
"""(private key, message) -> signature"""
VerifyEd25519: TypeAlias = Callable[[bytes, bytes, bytes], bool]
"""(public key, signature, message) -> whether it is right"""

# Without a dot, so that nobody can move the border between the id and what follows.
_ID = re.compile(r"[A-Za-z0-9_\-]{1,256}", re.ASCII)
_TIMESTAMP = re.compile(r"[0-9]{1,12}", re.ASCII)
_MOST_SIGNATURES = 32


def signatures(
    ring: SecretRing,
    message_id: str,
    timestamp: int,
    body: bytes,
    now: float,
    sign_ed25519: SignEd25519 | None = None,
) -> str:
    """The signature header: one signature of each secret that signs at `now`, the newest first."""
    if not _ID.fullmatch(message_id):
        raise InvalidInput(f"A message's id is letters, digits, _ and -, got {shown(message_id)}.")
    head = f"{message_id}.{timestamp}.".encode()
    first, *others = ring.active(now)
    signed = _signature(first, head, body, sign_ed25519)
    return " ".join([signed, *(_signature(each, head, body, sign_ed25519) for each in others)]) if others else signed


def headers(
    ring: SecretRing,
    message_id: str,
    timestamp: int,
    body: bytes,
    now: float,
    sign_ed25519: SignEd25519 | None = None,
    *,
    repeat_id: bool = False,
) -> tuple[tuple[str, str], ...]:
    """The headers of a signed webhook; `repeat_id` adds the id once more for receivers that expect it there."""
    signed = (
        (ID_HEADER, message_id),
        (TIMESTAMP_HEADER, str(timestamp)),
        (SIGNATURE_HEADER, signatures(ring, message_id, timestamp, body, now, sign_ed25519)),
    )
    return (*signed, (IDEMPOTENCY_HEADER, message_id)) if repeat_id else signed


class Rejection(StrEnum):
    """Why a webhook is not to be trusted."""

    MISSING_HEADER = "missing_header"
    BAD_ID = "bad_id"
    BAD_TIMESTAMP = "bad_timestamp"
    TOO_OLD = "too_old"
    TOO_NEW = "too_new"
    NO_MATCH = "no_matching_signature"


@dataclass(frozen=True, slots=True)
class Verification:
    """True if the webhook is genuine; else `rejection` says why not."""

    rejection: Rejection | None = None

    def __bool__(self) -> bool:
        return self.rejection is None


def verify(
    keys: Iterable[Secret | PublicKey],
    received: Mapping[str, str],
    body: bytes,
    now: float,
    *,
    tolerance: float = TOLERANCE,
    verify_ed25519: VerifyEd25519 | None = None,
) -> Verification:
    """Whether one of `keys` signed this body and these headers within `tolerance` seconds of `now`."""
    found = {name.lower(): value for name, value in received.items()}
    message_id, timestamp = found.get(ID_HEADER), found.get(TIMESTAMP_HEADER)
    given = found.get(SIGNATURE_HEADER)
    if not message_id or not timestamp or not given:
        return Verification(Rejection.MISSING_HEADER)
    if not _ID.fullmatch(message_id):
        return Verification(Rejection.BAD_ID)
    if not _TIMESTAMP.fullmatch(timestamp):
        return Verification(Rejection.BAD_TIMESTAMP)
    if int(timestamp) < now - tolerance:
        return Verification(Rejection.TOO_OLD)
    if int(timestamp) > now + tolerance:
        return Verification(Rejection.TOO_NEW)
    head = f"{message_id}.{timestamp}.".encode()
    by_scheme = _by_scheme(given)
    if any(_matches(key, head, body, by_scheme, verify_ed25519) for key in keys):
        return Verification()
    return Verification(Rejection.NO_MATCH)


def _signature(secret: Secret, head: bytes, body: bytes, sign_ed25519: SignEd25519 | None) -> str:
    match secret.scheme:
        case Scheme.HMAC:
            signed = secret.hmac(head, body)
        case Scheme.ED25519:
            if sign_ed25519 is None:
                raise InvalidInput("A v1a secret signs with Ed25519: pass sign_ed25519.")
            signed = sign_ed25519(secret.key, head + body)
        case _:
            assert_never(secret.scheme)
    return secret.scheme + "," + binascii.b2a_base64(signed, newline=False).decode()


def _by_scheme(given: str) -> dict[str, list[bytes]]:
    """The signatures of a header by their version; what cannot be read is left out."""
    found: dict[str, list[bytes]] = {Scheme.HMAC.value: [], Scheme.ED25519.value: []}
    for entry in given.split(" ")[:_MOST_SIGNATURES]:
        version, _, encoded = entry.partition(",")
        if version in found:
            try:
                found[version].append(binascii.a2b_base64(encoded, strict_mode=True))
            except (binascii.Error, ValueError):
                pass
    return found


def _matches(
    key: Secret | PublicKey,
    head: bytes,
    body: bytes,
    given: Mapping[str, list[bytes]],
    verify_ed25519: VerifyEd25519 | None,
) -> bool:
    if isinstance(key, Secret):
        if key.public is None:
            expected = key.hmac(head, body)
            return any(compare_digest(expected, signature) for signature in given[Scheme.HMAC])
        key = key.public
    if verify_ed25519 is None:
        raise InvalidInput("A v1a signature is verified with Ed25519: pass verify_ed25519.")
    return any(verify_ed25519(key.key, signature, head + body) for signature in given[Scheme.ED25519])
