"""Brings back what lost workers held. One process looks for all; the database lets each loss count once."""

from __future__ import annotations

import asyncio
import logging

from hookfuse.core.duty import Tenure
from hookfuse.errors import StoreError
from hookfuse.ports import Lanes

_log = logging.getLogger("hookfuse.delivery")

_PAGE = 1000


class Rescuer:
    def __init__(self, store: Lanes, deaths: int, every: float) -> None:
        self._store = store
        self._deaths = deaths
        self._every = every

    async def run(self, tenure: Tenure) -> None:
        while True:
            try:
                await self.look(tenure)
            except StoreError as error:
                _log.warning("rescuing waits for the database: %s", error)
            await asyncio.sleep(self._every)

    async def look(self, tenure: Tenure | None = None) -> int:
        """Return every delivery whose lease has ended; returns how many came back."""
        returned = 0
        while True:
            rescued = await self._store.rescue(deaths=self._deaths, limit=_PAGE, tenure=tenure)
            returned += rescued.returned
            for message_id, endpoint_id in rescued.quarantined:
                _log.error(
                    "delivery of %s to %s lost %d workers and is quarantined; retry it by hand once you know why",
                    message_id,
                    endpoint_id,
                    self._deaths,
                )
            if not rescued.more:
                break
        if returned:
            _log.warning("%d deliveries of lost workers came back", returned)
        return returned
