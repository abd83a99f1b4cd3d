"""Successes on their way from the outbox to Redis, a few shards at a time.

What has not left yet stays in the outbox, where a failure of its key takes it along. What is under way arrives before a
failure of its key is told, because the outcomes of a key must arrive in their order. What may not have arrived is never
sent again, and what waited behind it is dropped: told once Redis is back, it would count as successes of that time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from hookfuse.errors import StoreError
from hookfuse.stores.redis.commands import Command
from hookfuse.stores.redis.link import AsyncLink, Link
from hookfuse.stores.redis.verbs import Verbs

FLUSH_SECONDS = 0.003
_LONGEST_PAUSE = 0.1
_SHARDS_AT_ONCE = 8


def next_pause(took: float) -> float:
    """How long to buffer after a flush that took so long: flushing shall not take more than a tenth of the time."""
    return min(max(FLUSH_SECONDS, 9 * took), _LONGEST_PAUSE)


class Flights:
    """For threads; whoever uses the outbox holds `lock`."""

    def __init__(self, verbs: Verbs, link: Link, lock: threading.Lock) -> None:
        self._verbs = verbs
        self._link = link
        self._lock = lock
        self._taking_off = threading.Lock()
        self._flight = _Flight()

    def flush(self) -> None:
        """Tell the store what waits now."""
        with self._taking_off:
            with self._lock:
                parts = self._verbs.outbox.parts(_SHARDS_AT_ONCE)
            for keys in parts:
                self._fly(keys)

    def take(self, key: str) -> list[Command]:
        """What waits for a key, as soon as nothing of it is under way."""
        with self._lock:
            waiting = self._verbs.outbox.take(key)
            flight = self._flight
        if key in flight.keys:
            flight.wait()
        return waiting

    def _fly(self, keys: Sequence[str]) -> None:
        outbox = self._verbs.outbox
        with self._lock:
            waiting = [command for key in keys for command in outbox.take(key)]
            self._flight = flight = _Flight(frozenset(keys))
        try:
            calls = list(self._verbs.commands.batches(waiting))
            for call, result in zip(calls, self._link.run_all(calls), strict=True):
                self._verbs.arrived(call, result)
        except Exception as error:
            flight.lost = error
            with self._lock:
                outbox.clear()
            raise
        finally:
            self._flight = _Flight()
            flight.landed.set()


class _Flight:
    """Successes of some keys that are under way."""

    def __init__(self, keys: frozenset[str] = frozenset()) -> None:
        self.keys = keys
        self.landed = threading.Event()
        self.lost: Exception | None = None

    def wait(self) -> None:
        self.landed.wait()
        _raise_if_lost(self.lost)


class AsyncFlights:
    """For asyncio. A flight goes on when the flush that began it is cancelled."""

    def __init__(self, verbs: Verbs, link: AsyncLink) -> None:
        self._verbs = verbs
        self._link = link
        self._taking_off = asyncio.Lock()
        self._flight: asyncio.Task[None] | None = None
        self._keys: frozenset[str] = frozenset()

    async def flush(self) -> None:
        """Tell the store what waits now."""
        outbox = self._verbs.outbox
        async with self._taking_off:
            for keys in outbox.parts(_SHARDS_AT_ONCE):
                while self._flight is not None:
                    await asyncio.wait([self._flight])
                waiting = [command for key in keys for command in outbox.take(key)]
                self._keys = frozenset(keys)
                self._flight = asyncio.create_task(self._fly(waiting))
                await asyncio.shield(self._flight)

    async def take(self, key: str) -> list[Command]:
        """What waits for a key, as soon as nothing of it is under way."""
        waiting = self._verbs.outbox.take(key)
        flight = self._flight
        if flight is not None and key in self._keys:
            await asyncio.wait([flight])
            _raise_if_lost(flight.exception())
        return waiting

    async def _fly(self, waiting: Sequence[Command]) -> None:
        try:
            calls = list(self._verbs.commands.batches(waiting))
            for call, result in zip(calls, await self._link.run_all(calls), strict=True):
                self._verbs.arrived(call, result)
        except Exception:
            self._verbs.outbox.clear()
            raise
        finally:
            self._flight = None
            self._keys = frozenset()


def _raise_if_lost(lost: BaseException | None) -> None:
    """Whoever waited for a flight that did not arrive has waited long enough."""
    if isinstance(lost, StoreError):
        raise lost
