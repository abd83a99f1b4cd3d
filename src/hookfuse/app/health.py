"""Whether this process does its work, and what is not as it should be.

Alive is whoever answers. Ready is whoever reaches the database and is not about to end; breakers that are not shared, a
Redis that is away and an egress that is suspect are told, but keep nobody from accepting and delivering messages.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from hookfuse.app.metrics import Readings
from hookfuse.app.station import Station
from hookfuse.core.state import State
from hookfuse.core.upkeep import Backlog
from hookfuse.errors import HookfuseError

_DEADLINE = 2.0
_FRESH_SECONDS = 1.0
_ANY_KEY = "health"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What `/readyz` says, in words."""

    ready: bool
    database: str
    breakers: str
    egress: str
    lag_seconds: float | None
    held: int | None


class Health:
    """Looks at a station; its stores are asked once a second at most, however many ask."""

    def __init__(self, station: Station, *, delivers: bool = True) -> None:
        self.stopping = False
        self._station = station
        self._delivers = delivers
        self._asking = asyncio.Lock()
        self._asked_at = 0.0
        self._backlog: Backlog | None = None
        self._trouble = ""
        self._degraded = False

    async def readiness(self) -> Readiness:
        backlog = await self._ask()
        return Readiness(
            ready=backlog is not None and not self.stopping,
            database="ok" if backlog is not None else self._trouble,
            breakers=self._breakers(),
            egress="suspect: nearly every endpoint fails without a response" if self._suspect else "ok",
            lag_seconds=None if backlog is None else backlog.lag,
            held=None if backlog is None else backlog.held,
        )

    async def readings(self) -> Readings:
        backlog = await self._ask()
        station = self._station
        return Readings(
            ready=backlog is not None and not self.stopping,
            degraded=self._degraded,
            shared=station.shared,
            suspect=self._suspect,
            in_hand=station.worker.in_hand if self._delivers else 0,
            slots=station.worker.settings.slots if self._delivers else 0,
            backlog=backlog,
            breakers=await self._count_breakers(),
        )

    @property
    def _suspect(self) -> bool:
        return self._station.egress.suspect

    def _breakers(self) -> str:
        if self._degraded:
            return "degraded: Redis is away, each process has its own"
        if self._station.shared:
            return "shared"
        return "of this process, kept in the database" if self._station.kept is not None else "breakers not shared"

    async def _ask(self) -> Backlog | None:
        async with self._asking:
            if time.monotonic() - self._asked_at < _FRESH_SECONDS:
                return self._backlog
            try:
                async with asyncio.timeout(_DEADLINE):
                    self._backlog = await self._station.store.backlog()
            except TimeoutError:
                self._backlog, self._trouble = None, f"no answer within {_DEADLINE:g} s"
            except HookfuseError as error:
                self._backlog, self._trouble = None, str(error)
            self._degraded = not await self._breakers_answer()
            self._asked_at = time.monotonic()
            return self._backlog

    async def _breakers_answer(self) -> bool:
        """A process that makes no calls would notice neither that their store is away nor that it is back."""
        breakers = self._station.breakers
        try:
            async with asyncio.timeout(_DEADLINE):
                for key in (_ANY_KEY, *breakers.cut_off):
                    await breakers.inspect(key)
        except (TimeoutError, HookfuseError):
            return False
        return not breakers.degraded

    async def _count_breakers(self) -> dict[State, int]:
        found: dict[State, int] = {}
        try:
            async with asyncio.timeout(_DEADLINE):
                async for seen in self._station.breakers.unhealthy():
                    found[seen.state] = found.get(seen.state, 0) + 1
        except (TimeoutError, HookfuseError):
            # That it is away is told by another number.
            return {}
        return found
