"""Ed25519 for v1a signatures."""

from __future__ import annotations

from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from hookfuse.core.secret import Secret
from hookfuse.errors import InvalidField

_SIGNATURE_BYTES = 64
_KEYS_KEPT = 1_024


class CurveEd25519:
    """The `Ed25519` port on the `cryptography` package."""

    def __init__(self) -> None:
        # Deriving a key costs about as much as signing with it.
        self._private = lru_cache(_KEYS_KEPT)(Ed25519PrivateKey.from_private_bytes)

    def generate(self) -> Secret:
        private = Ed25519PrivateKey.generate()
        return Secret(private.private_bytes_raw(), private.public_key().public_bytes_raw())

    def check(self, secret: Secret) -> None:
        if secret.public is None:
            return
        if self._private(secret.key).public_key().public_bytes_raw() != secret.public.key:
            raise InvalidField("secret", "hold a private key and the public key that belongs to it", secret)

    def sign(self, private: bytes, message: bytes) -> bytes:
        return self._private(private).sign(message)

    def verify(self, public: bytes, signature: bytes, message: bytes) -> bool:
        if len(signature) != _SIGNATURE_BYTES:
            return False
        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
        except (InvalidSignature, ValueError):
            return False
        return True
