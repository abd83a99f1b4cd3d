"""Who asks: keys, known for a few seconds at a time so that a request need not wait for the database.

What is known of a key is asked anew after `TTL` seconds, so a revoked key is refused everywhere within that time. When
the database cannot be asked, nobody is let in on old knowledge.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass

from hookfuse.api.rates import Rate
from hookfuse.core.access import ApiKey, Role, hash_key, well_formed
from hookfuse.errors import StoreError
from hookfuse.ports.service import Keyring

TTL = 3.0
_MOST_KNOWN = 10_000
_TOUCH_AFTER_MS = 60_000
_SCHEME = b"bearer "

_log = logging.getLogger("hookfuse.api")


@dataclass(slots=True)
class Known:
    """A key and until when it is known, in monotonic seconds; None: there is no such key."""

    key: ApiKey | None
    until: float
    rate: Rate | None = None


class Doorkeeper:
    """Finds the key of a request by its Authorization header."""

    def __init__(self, keyring: Keyring, *, rate_limit: int | None = None) -> None:
        self._keyring = keyring
        self._rate_limit = rate_limit
        self._known: dict[bytes, Known] = {}
        self._asking: dict[bytes, asyncio.Task[Known]] = {}
        self._touching: set[asyncio.Task[None]] = set()

    def known(self, header: bytes) -> Known | None:
        """What is known without asking anyone."""
        found = self._known.get(header)
        return found if found is not None and time.monotonic() < found.until else None

    async def find(self, header: bytes) -> Known:
        """The key of a header, asked of the database at most once at a time."""
        found = self.known(header)
        if found is not None:
            return found
        text = _token(header)
        if text is None:
            return Known(None, 0.0)
        asking = self._asking.get(header)
        if asking is None:
            asking = asyncio.create_task(self._ask(header, text), name="hookfuse-key")
            self._asking[header] = asking
            asking.add_done_callback(lambda _: self._asking.pop(header, None))
        # Whoever is cancelled leaves the others' answer alone.
        return await asyncio.shield(asking)

    def forget(self, key_id: str) -> None:
        """A key was revoked in this process: do not wait for its time to run out."""
        for header in [each for each, found in self._known.items() if found.key is not None and found.key.id == key_id]:
            del self._known[header]

    async def close(self) -> None:
        await asyncio.gather(*self._asking.values(), *self._touching, return_exceptions=True)

    async def _ask(self, header: bytes, text: str) -> Known:
        until = time.monotonic() + TTL
        key = await self._keyring.key_by_hash(hash_key(text))
        if key is not None and key.revoked_ms is not None:
            key = None
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        before = self._known.get(header)
        rate = before.rate if before is not None else None
        if rate is None and key is not None and self._rate_limit is not None:
            rate = Rate(self._rate_limit)
        found = self._known[header] = Known(key, until, rate)
        if key is not None:
            self._touch(key)
        return found

    def _touch(self, key: ApiKey) -> None:
        now_ms = int(time.time() * 1000)
        if key.used_ms is not None and now_ms - key.used_ms < _TOUCH_AFTER_MS:
            return
        task = asyncio.create_task(self._write_touch(key.id), name="hookfuse-key-used")
        self._touching.add(task)
        task.add_done_callback(self._touching.discard)

    async def _write_touch(self, key_id: str) -> None:
        try:
            await self._keyring.touch_keys([key_id])
        except StoreError as error:
            _log.warning("the last use of key %s was not written: %s", key_id, error)


def may_write(key: ApiKey) -> bool:
    return key.role is not Role.READ


def _token(header: bytes) -> str | None:
    """The key in an Authorization header, if it has the shape of one."""
    if header[: len(_SCHEME)].lower() != _SCHEME:
        return None
    try:
        text = header[len(_SCHEME) :].strip().decode("ascii")
    except UnicodeDecodeError:
        return None
    return text if well_formed(text) else None
