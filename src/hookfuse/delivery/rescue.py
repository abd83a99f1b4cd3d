"""Brings back what lost workers held. Every worker looks; the database lets each loss count once."""

from __future__ import annotations

import asyncio
import logging
import random

from hookfuse.errors import StoreError
from hookfuse.ports import Lanes

_log = logging.getLogger("hookfuse.delivery")

_PAGE = 1000


class Rescuer:
    def __init__(self, store: Lanes, deaths: int, every: float) -> None:
        self._store = store
        self._deaths = deaths
        self._every = every

    async def run(self) -> None:
        while True:
            try:
                await self.look()
            except StoreError as error:
                _log.warning("rescuing waits for the database: %s", error)
            # Not all workers at once.
            await asyncio.sleep(self._every * random.uniform(0.75, 1.25))

    async def look(self) -> int:
        """Return every delivery whose lease has ended; returns how many came back."""
        returned = 0
        while True:
            rescued = await self._store.rescue(deaths=self._deaths, limit=_PAGE)
            returned += rescued.returned
            for message_id, endpoint_id in rescued.quarantined:
                _log.error(
                    "delivery of %s to %s lost %d workers and is quarantined; retry it by hand once you know why",
                    message_id,
                    endpoint_id,
                    self._deaths,
                )
            if rescued.returned + len(rescued.quarantined) < _PAGE:
                break
        if returned:
            _log.warning("%d deliveries of lost workers came back", returned)
        return returned
