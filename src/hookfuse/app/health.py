"""Whether this process does its work, and what is not as it should be.

Alive is whoever answers. Ready is whoever reaches a database that has every migration which it knows, and is not about
to end; breakers that are not shared, a Redis that is away and an egress that is suspect are told, but keep nobody from
accepting and delivering messages.
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
from hookfuse.stores.sql import migrations

_DEADLINE = 2.0
_FRESH_SECONDS = 1.0
_ANY_KEY = "health"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What `/readyz` says, in words."""

    ready: bool
    database: str
    migrations: str
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
        kind = "sqlite" if station.settings.database.startswith("sqlite:") else "postgres"
        self._known = [each.number for each in migrations(f"hookfuse.stores.{kind}")]
        self._applied = self._known[-1]
        self._trouble = ""
        self._degraded = False

    async def readiness(self) -> Readiness:
        backlog = await self._ask()
        return Readiness(
            ready=self._is_ready(backlog),
            database="ok" if backlog is not None else self._trouble,
            migrations=self._migrations(),
            breakers=self._breakers(),
            egress="suspect: nearly every endpoint fails without a response" if self._suspect else "ok",
            lag_seconds=None if backlog is None else backlog.lag,
            held=None if backlog is None else backlog.held,
        )

    async def readings(self) -> Readings:
        backlog = await self._ask()
        station = self._station
        return Readings(
            ready=self._is_ready(backlog),
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

    def _is_ready(self, backlog: Backlog | None) -> bool:
        return backlog is not None and self._applied >= self._known[-1] and not self.stopping

    def _migrations(self) -> str:
        missing = sum(number > self._applied for number in self._known)
        if missing:
            return f"{missing} of {len(self._known)} are missing: run `hookfuse migrate`"
        if self._applied > self._known[-1]:
            return "those of a newer version are there: restart this process with it"
        return "ok"

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
                    store = self._station.store
                    self._applied = max((each.number for each in await store.applied_migrations()), default=0)
                    self._backlog = await store.backlog()
            except TimeoutError:
                self._backlog, self._trouble = None, f"no answer within {_DEADLINE:g} s"
            except HookfuseError as error:
                self._backlog, self._trouble = None, str(error)
            self._degraded = self._station.breakers.degraded or not await self._breakers_answer()
            self._asked_at = time.monotonic()
            return self._backlog

    async def _breakers_answer(self) -> bool:
        """A process that makes no calls would not notice that their store is away."""
        try:
            async with asyncio.timeout(_DEADLINE):
                await self._station.breakers.inspect(_ANY_KEY)
        except (TimeoutError, HookfuseError):
            return False
        return True

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
