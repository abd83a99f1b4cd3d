"""API keys: what they may do, and how their text is made and checked.

A key is a prefix that says what it is, 256 random bits and a checksum, in letters, digits, hyphens and underscores.
So a mistyped key is told apart without asking anyone, and a scanner finds a leaked one by its shape. Only its hash is
kept.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from zlib import crc32

from hookfuse.errors import InvalidInput

RANDOM_BYTES = 32


class Role(StrEnum):
    """What a key is for."""

    ADMIN = "admin"
    """Everything."""
    APP = "app"
    """Everything within one application."""
    READ = "read"
    """Looking only: at one application, or at all."""


_PREFIXES = {Role.ADMIN: "hfadmin_", Role.APP: "hfapp_", Role.READ: "hfread_"}
_KEY = re.compile(r"((?:hfadmin|hfapp|hfread)_[A-Za-z0-9_-]{43})([A-Za-z0-9_-]{6})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored; its text is shown once and never again."""

    id: str
    role: Role
    name: str
    hash: bytes
    app_id: str | None = None
    """The only application it is for; None: all."""
    created_ms: int = 0
    revoked_ms: int | None = None
    used_ms: int | None = None
    """When it was last used, to about a minute."""

    def __post_init__(self) -> None:
        if self.role is Role.APP and self.app_id is None:
            raise InvalidInput("A key of the role app names its application.")
        if self.role is Role.ADMIN and self.app_id is not None:
            raise InvalidInput("An admin key is for all applications; it names none.")


def make_key_text(role: Role, randomness: bytes) -> str:
    """The text of a new key. `randomness` is 32 random bytes."""
    if len(randomness) != RANDOM_BYTES:
        raise InvalidInput(f"A key takes {RANDOM_BYTES} random bytes, got {len(randomness)}.")
    body = _PREFIXES[role] + _text(randomness)
    return body + _checksum(body)


def well_formed(text: str) -> bool:
    """Whether a text can be a key: its shape and checksum are right."""
    found = _KEY.fullmatch(text)
    return found is not None and _checksum(found[1]) == found[2]


def hash_key(text: str) -> bytes:
    """What is stored of a key. Its text has too much randomness to be guessed, so a plain hash is enough."""
    return sha256(b"hookfuse api key " + text.encode()).digest()


def _checksum(body: str) -> str:
    return _text(crc32(body.encode()).to_bytes(4))


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")
