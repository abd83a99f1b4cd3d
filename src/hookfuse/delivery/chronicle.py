"""Writes down what breakers do, as soon as it is heard.

Every process hears of every transition, and each writes all of them: the first one counts. So a process that ends
between a transition and its writing loses nothing as long as another one lives, and if none does, `reconcile.py` finds
it afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Self

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.state import Transition
from hookfuse.errors import HookfuseError, StoreError, StoreUnavailable
from hookfuse.ports.notices import History
from hookfuse.telemetry import Observer

_log = logging.getLogger("hookfuse.delivery")

_MOST_AT_ONCE = 200
_MOST_WAITING = 10_000
_PAUSE = 0.5
_BEGINS_WITHIN = 1.0
_LAST_WORDS = 2.0


class Chronicle:
    """Enter it to begin. `on_kept` hears of those that were written here first, so each once in the fleet."""

    def __init__(
        self,
        store: History,
        breakers: AsyncBreakers,
        on_kept: Observer = lambda transition: None,
    ) -> None:
        self._store = store
        self._breakers = breakers
        self._on_kept = on_kept
        # While the database is away the oldest may be lost here; what they led to is found when it is back.
        self._heard: deque[Transition] = deque(maxlen=_MOST_WAITING)
        self._noted = asyncio.Event()
        self._ending = False
        self._writer: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._subscription = self._breakers.subscribe(self._hear)
        self._writer = asyncio.create_task(self._write_on(), name="hookfuse-chronicle")
        try:
            # A store that is followed is heard from when it was first read, so that comes before anything happens here.
            async with asyncio.timeout(_BEGINS_WITHIN):
                await self._breakers.catch_up()
        except (HookfuseError, TimeoutError) as error:
            _log.warning("transitions are not heard of yet: %s", str(error) or "no answer in time")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._subscription.close()
        assert self._writer is not None
        self._ending = True
        self._noted.set()
        # Cut off in mid-journey, it would not know what it has written.
        await asyncio.wait([self._writer], timeout=_LAST_WORDS)
        self._writer.cancel()
        await asyncio.gather(self._writer, return_exceptions=True)
        if self._heard:
            _log.warning("%d transitions could not be written down here", len(self._heard))

    def _hear(self, transition: Transition) -> None:
        self._heard.append(transition)
        self._noted.set()

    async def _write_on(self) -> None:
        while self._heard or not self._ending:
            await self._noted.wait()
            self._noted.clear()
            try:
                while self._heard:
                    await self._write()
            except StoreUnavailable as error:
                _log.warning("writing down transitions waits for the database: %s", error)
                await asyncio.sleep(_PAUSE)
                self._noted.set()

    async def _write(self) -> None:
        batch = [self._heard.popleft() for _ in range(min(len(self._heard), _MOST_AT_ONCE))]
        try:
            new = await self._store.keep_transitions(batch)
        except (StoreUnavailable, asyncio.CancelledError):
            self._heard.extendleft(reversed(batch))
            raise
        except StoreError:
            # Nothing is gained by trying the same again.
            _log.exception("%d transitions could not be written down", len(batch))
            return
        for each in new:
            self._on_kept(each)
