"""Sealing with AES-256-GCM.

A sealed value is a version byte, the id of the key (8 bytes), the nonce (12), and the ciphertext with its tag (16).
All that stands before the ciphertext is authenticated together with what the value is about.
"""

from __future__ import annotations

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hookfuse.errors import BrokenSeal, UnknownKey
from hookfuse.sealing.keys import KEY_ID_BYTES, MasterKeys

_VERSION = b"\x01"
_NONCE_BYTES = 12
_TAG_BYTES = 16
_HEAD_BYTES = len(_VERSION) + KEY_ID_BYTES
_LEAST_BYTES = _HEAD_BYTES + _NONCE_BYTES + _TAG_BYTES


class AesGcmSealer:
    """Seals with the newest key; opens with whichever made the seal."""

    def __init__(self, keys: MasterKeys) -> None:
        self._newest = _VERSION + keys.newest
        self._ciphers = {_VERSION + key_id: AESGCM(key) for key_id, key in keys.by_id.items()}

    def seal(self, plain: bytes, about: bytes) -> bytes:
        # A random nonce may repeat after some 2**32 seals of one key: far more than there are secrets.
        nonce = os.urandom(_NONCE_BYTES)
        head = self._newest
        return head + nonce + self._ciphers[head].encrypt(nonce, plain, head + about)

    def open(self, sealed: bytes, about: bytes) -> bytes:
        head, nonce = sealed[:_HEAD_BYTES], sealed[_HEAD_BYTES : _HEAD_BYTES + _NONCE_BYTES]
        if len(sealed) < _LEAST_BYTES or not head.startswith(_VERSION):
            raise BrokenSeal("A sealed secret cannot be opened: it is not in the form that this version seals in.")
        cipher = self._ciphers.get(head)
        if cipher is None:
            key_id = head[len(_VERSION) :].hex()
            raise UnknownKey(
                f"A sealed secret cannot be opened: it was sealed with the master key {key_id}, which is not at hand. "
                "Add that key to the key file, below the newest."
            )
        try:
            return cipher.decrypt(nonce, sealed[_HEAD_BYTES + _NONCE_BYTES :], head + about)
        except InvalidTag:
            raise BrokenSeal(
                "A sealed secret cannot be opened: it was changed, or it belongs to something else."
            ) from None

    def needs_resealing(self, sealed: bytes) -> bool:
        return not sealed.startswith(self._newest)
