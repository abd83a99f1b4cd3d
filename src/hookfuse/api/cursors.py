"""Iterators: a mark of a list as text that nobody can change or use for another list."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from hmac import compare_digest, digest
from typing import NamedTuple

import msgspec

from hookfuse.api.problems import invalid
from hookfuse.core.paging import Mark

_MAC_BYTES = 16


class Cursor(NamedTuple):
    """Where a page ended, and which way the reader was going."""

    backwards: bool
    at_ms: int
    id: str
    part: str

    @property
    def mark(self) -> Mark:
        return Mark(self.at_ms, self.id, self.part)


_decoder = msgspec.json.Decoder(Cursor)


class Cursors:
    """Signs with the first key; reads what any of them signed."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = [digest(key, b"hookfuse cursors", sha256) for key in keys]

    def write(self, about: str, mark: Mark, *, backwards: bool = False) -> str:
        """`about` names the list."""
        body = msgspec.json.encode(Cursor(backwards, *mark))
        return urlsafe_b64encode(self._mac(self._keys[0], about, body) + body).decode().rstrip("=")

    def read(self, about: str, text: str) -> Cursor:
        try:
            data = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            mac, body = data[:_MAC_BYTES], data[_MAC_BYTES:]
            # One text for each mark: what a decoder would pass over is not what was written.
            if urlsafe_b64encode(data).decode().rstrip("=") == text and self._fits(about, mac, body):
                return _decoder.decode(body)
        except (binascii.Error, ValueError):
            pass
        raise invalid("It is not an iterator of this list.", "query", "iterator")

    def _fits(self, about: str, mac: bytes, body: bytes) -> bool:
        return any(compare_digest(self._mac(key, about, body), mac) for key in self._keys)

    def _mac(self, key: bytes, about: str, body: bytes) -> bytes:
        return digest(key, about.encode() + b"\0" + body, sha256)[:_MAC_BYTES]
