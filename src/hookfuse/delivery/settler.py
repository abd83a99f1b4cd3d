"""Writes what became of claims, many at a time. What the database could not take now is written as soon as it can."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from hookfuse.core.delivery import Claim, Deferral, Settlement
from hookfuse.errors import StoreUnavailable
from hookfuse.ports import Lanes

T = TypeVar("T")

_log = logging.getLogger("hookfuse.delivery")

_MOST_AT_ONCE = 1000
_PAUSE = 0.002
_PATIENCE = 0.025
"""Seconds that failed attempts wait for others: of many endpoints that hang, many end one shortly after the other, and
a journey for each would be in the way of healthy ones."""
_MANY = 64
_LONGEST_BREATH = 0.02
"""Seconds. A busy worker takes a breath between two journeys, so that more go with the next: fewer commits, and claims
that find the database free. After a few nobody is kept waiting: a FIFO endpoint, or one with all that it may have in
flight, gets nothing more before the last is settled."""
_LONGEST_PAUSE = 1.0


class Settler:
    """One journey at a time; what ends meanwhile goes with the next. Failed attempts can wait a little, nothing else.

    Lanes are unblocked by the same journeys: what was refused before a breaker changed would block them after it.
    `lost` hears of claims that were settled too late, `written` of all that are out of our hands.
    """

    def __init__(
        self,
        store: Lanes,
        lost: Callable[[Sequence[Claim]], None],
        written: Callable[[Sequence[Claim]], None] = lambda claims: None,
    ) -> None:
        self._store = store
        self._lost = lost
        self._written = written
        self._settlements: list[Settlement] = []
        self._deferrals: list[Deferral] = []
        self._to_unblock: set[str] = set()
        self.unblocked = 0
        """How often it was asked to unblock lanes."""
        self._travelling = 0
        self._journey: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def settle(self, settlement: Settlement) -> None:
        self._settlements.append(settlement)
        self._start(soon=settlement.healthy is not False)

    def defer(self, deferral: Deferral) -> None:
        self._deferrals.append(deferral)
        self._start()

    def unblock(self, endpoint_ids: Iterable[str]) -> None:
        """Have these looked at again, once everything that was put off so far is written."""
        self.unblocked += 1
        self._to_unblock.update(endpoint_ids)
        self._start()

    @property
    def waiting(self) -> int:
        """How many are not written yet, those on their way included."""
        return len(self._settlements) + len(self._deferrals) + self._travelling

    async def flush(self) -> None:
        """Wait until everything is written."""
        await self._idle.wait()

    def _start(self, *, soon: bool = True) -> None:
        if soon and not self._soon.is_set():
            self._soon.set()
        if self._journey is None:
            self._idle.clear()
            self._journey = asyncio.get_running_loop().create_task(self._travel(), name="hookfuse-settle")

    async def _travel(self) -> None:
        try:
            await self._until_soon()
            await asyncio.sleep(_PAUSE)
            while self._settlements or self._deferrals or self._to_unblock:
                await self._until_soon()
                self._soon.clear()
                began = time.monotonic()
                settlements, self._settlements = _cut(self._settlements)
                deferrals, self._deferrals = _cut(self._deferrals)
                self._travelling = len(settlements) + len(deferrals)
                unblocked: list[str] = []
                if not self._deferrals:
                    unblocked, self._to_unblock = sorted(self._to_unblock), set()
                if settlements:
                    await self._write(partial(self._settle, settlements))
                if deferrals:
                    await self._write(partial(self._store.defer, deferrals))
                if unblocked:
                    await self._write(partial(self._store.unblock, unblocked))
                self._travelling = 0
                self._written([*(each.claim for each in settlements), *(each.claim for each in deferrals)])
                if len(settlements) >= _MANY and self.waiting < _MOST_AT_ONCE // 2:
                    await asyncio.sleep(min(2 * (time.monotonic() - began), _LONGEST_BREATH))
        finally:
            self._travelling = 0
            self._journey = None
            self._idle.set()

    async def _until_soon(self) -> None:
        if not self._soon.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._soon.wait()
            self._soon.set()

    async def _settle(self, batch: Sequence[Settlement]) -> None:
        try:
            stale = await self._store.settle(batch)
        except StoreUnavailable:
            raise
        except Exception:
            if len(batch) == 1:
                raise
            # One that cannot be written must not have the others sent again.
            for each in batch:
                await self._write(partial(self._settle, [each]))
            return
        if stale:
            self._lost(stale)

    async def _write(self, write: Callable[[], Awaitable[None]]) -> None:
        # Asking twice is safe: what was done the first time is refused the second, by its token.
        pause = 0.05
        while True:
            try:
                return await write()
            except StoreUnavailable as error:
                _log.warning("settling waits for the database: %s", error)
                await asyncio.sleep(pause * random.uniform(0.5, 1))
                pause = min(pause * 2, _LONGEST_PAUSE)
            except Exception:
                # The leases will end and the deliveries come back; nothing is lost.
                _log.exception("what became of claims could not be written down")
                return None


def _cut(waiting: list[T]) -> tuple[list[T], list[T]]:
    return waiting[:_MOST_AT_ONCE], waiting[_MOST_AT_ONCE:]
