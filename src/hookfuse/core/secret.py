"""What signs an endpoint's webhooks: a secret, and the ring of those that sign while one is rotated.

The texts are those of Standard Webhooks: `whsec_` and the base64 of 24 to 64 random bytes (v1), `whsk_` and the base64
of an Ed25519 private key followed by its public key (v1a), and `whpk_` for the public key alone.
"""

from __future__ import annotations

import binascii
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from hmac import compare_digest
from typing import Any, Final, Self

from hookfuse.core import bounds
from hookfuse.core.bounds import DAY, Duration
from hookfuse.core.plain import given_fields
from hookfuse.errors import InvalidField, InvalidInput

SHORTEST_KEY = 24
LONGEST_KEY = 64
MOST_OLD = 10

_ED25519_BYTES = 32
_PREFIX: Final = "whsec_"
_PAIR_PREFIX: Final = "whsk_"
_PUBLIC_PREFIX: Final = "whpk_"
_BLOCK = 64
_INNER_PAD = bytes(byte ^ 0x36 for byte in range(256))
_OUTER_PAD = bytes(byte ^ 0x5C for byte in range(256))


class Scheme(StrEnum):
    """How a secret signs; the value is the version in front of its signatures."""

    HMAC = "v1"
    ED25519 = "v1a"


class Secret:
    """A signing secret. Only `text` and `key` show it; `fingerprint` tells secrets apart.

    Not a dataclass, because `asdict` would lay the key open.
    """

    __slots__ = ("_inner", "_key", "_outer", "_public", "_scheme")

    def __init__(self, key: bytes, public: bytes | None = None) -> None:
        """`key` alone is shared with the receiver; with its `public` key it is an Ed25519 private key."""
        if public is None:
            if not SHORTEST_KEY <= len(key) <= LONGEST_KEY:
                raise _refused(f"hold {SHORTEST_KEY} to {LONGEST_KEY} bytes", key)
        elif len(key) != _ED25519_BYTES or len(public) != _ED25519_BYTES:
            raise _refused("hold a private key of 32 bytes and its public key of 32", key + public)
        self._scheme = Scheme.HMAC if public is None else Scheme.ED25519
        self._key = key
        self._public = public
        # The key's share of every HMAC, done once: signing is then half as long as by `hmac.digest`.
        block = key.ljust(_BLOCK, b"\0")
        self._inner = sha256(block.translate(_INNER_PAD))
        self._outer = sha256(block.translate(_OUTER_PAD))

    @classmethod
    def parse(cls, text: object) -> Self:
        if isinstance(text, str):
            if text.startswith(_PREFIX):
                return cls(_decode(text, _PREFIX))
            if text.startswith(_PAIR_PREFIX):
                pair = _decode(text, _PAIR_PREFIX)
                return cls(pair[:_ED25519_BYTES], pair[_ED25519_BYTES:])
        raise InvalidField("secret", f"begin with {_PREFIX} or {_PAIR_PREFIX}", _HIDDEN)

    @property
    def scheme(self) -> Scheme:
        return self._scheme

    @property
    def key(self) -> bytes:
        """The bytes that sign."""
        return self._key

    @property
    def public(self) -> PublicKey | None:
        """What a receiver verifies with, unless it needs the secret itself."""
        return None if self._public is None else PublicKey(self._public)

    @property
    def text(self) -> str:
        if self._public is None:
            return _PREFIX + _encode(self._key)
        return _PAIR_PREFIX + _encode(self._key + self._public)

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits that tell it from others and do not give it away."""
        return sha256(f"hookfuse {self._scheme} ".encode() + self._key + (self._public or b"")).hexdigest()[:12]

    def hmac(self, first: bytes, rest: bytes) -> bytes:
        """HMAC-SHA256 of two parts in a row, which need not be joined."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(first)
        inner.update(rest)
        outer.update(inner.digest())
        return outer.digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return compare_digest(self._key, other._key) and self._public == other._public

    def __hash__(self) -> int:
        return hash((self._key, self._public))

    def __reduce__(self) -> tuple[type[Secret], tuple[bytes, bytes | None]]:
        # A prepared hash cannot be copied along.
        return Secret, (self._key, self._public)

    def __repr__(self) -> str:
        return f"<Secret {self._scheme} {self.fingerprint}>"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """The half of an Ed25519 secret that everyone may see."""

    key: bytes

    def __post_init__(self) -> None:
        if len(self.key) != _ED25519_BYTES:
            raise InvalidField("public_key", f"hold {_ED25519_BYTES} bytes", len(self.key))

    @classmethod
    def parse(cls, text: object) -> Self:
        if not isinstance(text, str) or not text.startswith(_PUBLIC_PREFIX):
            raise InvalidField("public_key", f"begin with {_PUBLIC_PREFIX}", _HIDDEN)
        return cls(_decode(text, _PUBLIC_PREFIX, "public_key"))

    @property
    def text(self) -> str:
        return _PUBLIC_PREFIX + _encode(self.key)


@dataclass(frozen=True, slots=True)
class OldSecret:
    """A secret that was replaced and still signs until then (Unix seconds)."""

    secret: Secret
    until: float

    def __post_init__(self) -> None:
        if bounds.finite(self.until) is None:
            raise InvalidField("until", "be an instant in Unix seconds", self.until)


@dataclass(frozen=True, slots=True)
class SecretRing:
    """The secret of an endpoint, and older ones that sign beside it, newest first, while receivers change over."""

    current: Secret
    old: tuple[OldSecret, ...] = ()

    def active(self, now: float) -> tuple[Secret, ...]:
        """What signs at `now`, the newest first."""
        if not self.old:
            return (self.current,)
        return (self.current, *(each.secret for each in self.old if now < each.until))

    def rotated(self, new: Secret, now: float, overlap: Duration = DAY) -> SecretRing:
        """The ring with a new secret; what it replaces signs on for `overlap` seconds, at 0 no longer."""
        seconds = bounds.seconds("overlap", overlap, 0, 30 * DAY)
        replaced = OldSecret(self.current, now + seconds)
        old = tuple(each for each in (replaced, *self.old) if now < each.until and each.secret != new)
        if len(old) > MOST_OLD:
            raise InvalidInput(
                f"An endpoint may have {MOST_OLD} older secrets that still sign; wait for one to end, "
                "or rotate without an overlap."
            )
        return SecretRing(new, old)

    def to_data(self) -> dict[str, Any]:
        """Plain data with the secrets in the clear: seal it. `from_data` gives an equal ring."""
        old = [{"secret": each.secret.text, "until": each.until} for each in self.old]
        return {"current": self.current.text, "old": old}

    @classmethod
    def from_data(cls, data: object) -> Self:
        try:
            given = given_fields(cls, data)
            old = [given_fields(OldSecret, each) for each in given.get("old", ())]
            return cls(
                Secret.parse(given["current"]),
                tuple(OldSecret(Secret.parse(each["secret"]), each["until"]) for each in old),
            )
        except (InvalidInput, KeyError, TypeError):
            # The errors of plain data quote it, and here it holds secrets.
            raise InvalidField("secrets", "be what to_data gave", _HIDDEN) from None


class _Hidden:
    def __repr__(self) -> str:
        return "something that is not shown here"


_HIDDEN = _Hidden()


def _refused(must: str, key: bytes) -> InvalidField:
    return InvalidField("secret", must, len(key))


def _encode(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _decode(text: str, prefix: str, field: str = "secret") -> bytes:
    encoded = text.removeprefix(prefix)
    try:
        data = binascii.a2b_base64(encoded, strict_mode=True)
    except (binascii.Error, ValueError):
        data = b""
    # Only one spelling of a key is taken, so that its text is always the one that was given.
    if not data or _encode(data) != encoded:
        raise InvalidField(field, f"be base64 after {prefix}", _HIDDEN)
    return data
