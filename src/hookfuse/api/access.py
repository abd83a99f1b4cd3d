"""Who asks: keys, known for a few seconds at a time so that a request need not wait for the database.

What is known of a key is asked anew after `FRESH` seconds, while whoever asks is still let in by what was known; after
`GRACE` more nobody is. So a slow database does not hold up requests, a revoked key is refused everywhere within the
sum, and when the database is away nobody is let in on old knowledge for longer.
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

FRESH = 2.0
GRACE = 2.0
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
        if found is None:
            return None
        late = time.monotonic() - found.until
        if late < 0:
            return found
        if late >= GRACE:
            return None
        self._asked(header)
        return found

    async def find(self, header: bytes) -> Known:
        """The key of a header, asked of the database at most once at a time."""
        found = self.known(header)
        if found is not None:
            return found
        # Whoever is cancelled leaves the others' answer alone.
        return await asyncio.shield(self._asked(header))

    def forget(self, key_id: str) -> None:
        """A key was revoked in this process: do not wait for its time to run out."""
        for header in [each for each, found in self._known.items() if found.key is not None and found.key.id == key_id]:
            del self._known[header]

    async def close(self) -> None:
        await asyncio.gather(*self._asking.values(), *self._touching, return_exceptions=True)

    def _asked(self, header: bytes) -> asyncio.Task[Known]:
        """The one question about a header that is under way."""
        asking = self._asking.get(header)
        if asking is None:
            asking = self._asking[header] = asyncio.create_task(self._ask(header), name="hookfuse-key")
            asking.add_done_callback(lambda task: self._answered(header, task))
        return asking

    def _answered(self, header: bytes, task: asyncio.Task[Known]) -> None:
        self._asking.pop(header, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("a key could not be looked up: %s", error)

    async def _ask(self, header: bytes) -> Known:
        until = time.monotonic() + FRESH
        text = _token(header)
        key = None if text is None else await self._keyring.key_by_hash(hash_key(text))
        before = self._known.pop(header, None)
        if key is None or key.revoked_ms is not None:
            # Not remembered: whoever guesses must not drive out those who are known.
            return Known(None, until)
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        found = self._known[header] = Known(key, until, self._rate_of(before))
        self._touch(key)
        return found

    def _rate_of(self, before: Known | None) -> Rate | None:
        if before is not None and before.rate is not None:
            return before.rate
        return None if self._rate_limit is None else Rate(self._rate_limit)

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
