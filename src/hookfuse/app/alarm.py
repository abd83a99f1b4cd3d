"""Says aloud what is not as it should be with the service itself: once when it begins, once when it is over.

What lasts for a quarter of a minute is logged here, and put into the outbox for the channels of the service. Every
process looks, and says the same of what all of them see; the outbox tells it once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Self

from hookfuse.app.health import Health
from hookfuse.core.history import service_is
from hookfuse.core.notice import Occurrence
from hookfuse.core.upkeep import Concern
from hookfuse.errors import StoreError
from hookfuse.ports.notices import Outbox

PATIENCE = 15.0
"""Seconds that something must last: a leader that was killed, or a Redis that restarts, is no alarm."""
_EVERY = 5.0

_log = logging.getLogger("hookfuse.app")


class Alarm:
    """Enter it to begin."""

    def __init__(self, store: Outbox, health: Health) -> None:
        self._store = store
        self._health = health
        self._since: dict[Concern, float] = {}
        self._told: set[Concern] = set()
        self._unwritten: list[Occurrence] = []
        self._looking: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._looking = asyncio.create_task(self._look_on(), name="hookfuse-alarm")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._looking is not None
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def look(self, now: float) -> None:
        """Look once; `now` is in monotonic seconds."""
        found = await self._health.concerns()
        for concern, sentence in found.items():
            if concern not in self._told and now - self._since.setdefault(concern, now) >= PATIENCE:
                self._told.add(concern)
                self._say(concern, sentence, troubled=True)
        for concern in self._since.keys() - found.keys():
            lasted = now - self._since.pop(concern)
            if concern in self._told:
                self._told.discard(concern)
                self._say(concern, f"it lasted {lasted:.0f} s", troubled=False)
        await self._write()

    def _say(self, concern: Concern, sentence: str, *, troubled: bool) -> None:
        if troubled:
            _log.error("alert %s: %s", concern, sentence)
        else:
            _log.warning("alert %s is over: %s", concern, sentence)
        self._unwritten.append(service_is(concern, sentence, int(time.time() * 1000), troubled=troubled))

    async def _write(self) -> None:
        while self._unwritten:
            try:
                await self._store.tell(self._unwritten[0])
            except StoreError as error:
                _log.warning("an alert waits for the database: %s", error)
                return
            del self._unwritten[0]

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            try:
                await self.look(time.monotonic())
            except Exception:
                _log.exception("Looking for what is wrong failed; looking again.")
