"""Tells the fleet that this process is there, and how it does.

One small write every few seconds, beside everything else: delivery neither waits for it nor notices when it fails. How
the breakers are is what the alarm found when it last looked, so nobody is asked for it a second time.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from importlib.metadata import version
from typing import Self

from hookfuse.app.health import Health
from hookfuse.app.station import Station
from hookfuse.core.member import Part, Report

EVERY = 5.0
_DEADLINE = 2.0

_log = logging.getLogger("hookfuse.app")


class Heartbeat:
    """Enter it to be listed among the processes of the fleet; leaving it takes this one off the list."""

    def __init__(self, station: Station, health: Health, parts: tuple[Part, ...]) -> None:
        self._station = station
        self._health = health
        self._parts = parts
        self._born = time.monotonic()
        self._host = socket.gethostname()
        self._at_once = asyncio.Event()
        self._leaving = False
        self._heard = True
        self._beating: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._beating = asyncio.create_task(self._beat_on(), name="hookfuse-heartbeat")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._beating is not None
        # Not cancelled: a report that is still on its way must not arrive after the end.
        self._leaving = True
        self._at_once.set()
        await self._beating
        try:
            async with asyncio.timeout(_DEADLINE):
                await self._station.store.sign_off(self._station.name)
        except Exception as error:
            _log.warning("this process will be listed as silent for a while: %s", _said(error))

    def drain(self) -> None:
        """The process takes nothing new from now on; that is told at once."""
        self._health.stopping = True
        self._at_once.set()

    async def beat(self) -> None:
        """Report once."""
        age_ms = round((time.monotonic() - self._born) * 1000)
        try:
            async with asyncio.timeout(_DEADLINE):
                await self._station.store.report_in(self._report(), age_ms=age_ms)
        except Exception as error:
            # Once, not every few seconds: that the database is away is told by others.
            if self._heard:
                _log.warning("the list of processes may miss this one: %s", _said(error))
            self._heard = False
            return
        if not self._heard:
            _log.info("this process is on the list of processes again")
        self._heard = True

    async def _beat_on(self) -> None:
        while not self._leaving:
            self._at_once.clear()
            await self.beat()
            try:
                async with asyncio.timeout(EVERY):
                    await self._at_once.wait()
            except TimeoutError:
                continue

    def _report(self) -> Report:
        station, delivers = self._station, Part.WORKER in self._parts
        return Report(
            name=station.name,
            host=self._host,
            pid=os.getpid(),
            version=version("hookfuse"),
            parts=self._parts,
            every_ms=round(EVERY * 1000),
            in_hand=station.worker.busy if delivers else 0,
            slots=station.worker.settings.slots if delivers else 0,
            draining=self._health.stopping,
            breakers=self._health.sharing,
            suspect=station.egress.suspect,
        )


def _said(error: Exception) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
