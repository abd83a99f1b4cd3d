"""Whether this process does its work, and what is not as it should be.

Alive is whoever answers. Ready is whoever reaches a database that has every migration which it knows, and is not about
to end; breakers that are not shared, a Redis that is away and an egress that is suspect are told, but keep nobody from
accepting and delivering messages.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hookfuse.app.metrics import Readings
from hookfuse.app.station import Station
from hookfuse.core.duty import Duty
from hookfuse.core.member import Presence, Sharing
from hookfuse.core.notice import Waiting
from hookfuse.core.state import State
from hookfuse.core.upkeep import Backlog, Concern
from hookfuse.errors import HookfuseError
from hookfuse.stores.sql import migrations

_DEADLINE = 2.0
_FRESH_SECONDS = 1.0
_ANY_KEY = "health"
_SAMPLE_LATE = 30.0
_LAG = 60.0


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
    alerts: dict[Concern, str]
    """What someone should look at, and why."""


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
        self._undone: frozenset[Duty] = frozenset()

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
            alerts=self._concerns(),
        )

    async def concerns(self) -> dict[Concern, str]:
        """What is not as it should be, in words; whether it will pass by itself shows when it is asked again."""
        await self._ask()
        return self._concerns()

    async def readings(self) -> Readings:
        backlog = await self._ask()
        station = self._station
        return Readings(
            ready=self._is_ready(backlog),
            degraded=self._degraded,
            shared=station.shared,
            suspect=self._suspect,
            in_hand=station.worker.busy if self._delivers else 0,
            set_aside=station.worker.set_aside if self._delivers else 0,
            slots=station.worker.settings.slots if self._delivers else 0,
            backlog=backlog,
            breakers=await self._count_breakers(),
            notices=await self._notices(),
            alerts=frozenset(self._concerns()),
            processes=await self._count_processes(),
        )

    @property
    def sharing(self) -> Sharing:
        """Whose breakers these are, as it was found when someone last looked."""
        if self._degraded or self._station.breakers.degraded:
            return Sharing.DEGRADED
        return Sharing.SHARED if self._station.shared else Sharing.OWN

    def _concerns(self) -> dict[Concern, str]:
        late = self._station.sampler.overdue
        lag = 0.0 if self._backlog is None else self._backlog.lag
        found = {
            Concern.REDIS: "Redis is away, and each process has breakers of its own" if self._degraded else "",
            Concern.EGRESS: "nearly every endpoint fails without a response" if self._suspect else "",
            Concern.SAMPLER: f"a sample is {late:.0f} s overdue" if late > _SAMPLE_LATE else "",
            Concern.BACKLOG: f"the first delivery that could go is {lag:.0f} s late" if lag > _LAG else "",
            Concern.LEADER: f"nobody does {', '.join(sorted(self._undone))}" if self._undone else "",
        }
        return {concern: sentence for concern, sentence in found.items() if sentence}

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
            self._degraded = not await self._breakers_answer()
            self._undone = await self._duties_undone()
            self._asked_at = time.monotonic()
            return self._backlog

    async def _duties_undone(self) -> frozenset[Duty]:
        try:
            async with asyncio.timeout(_DEADLINE):
                return self._station.leader.offers - {each.duty for each in await self._station.store.duties()}
        except (TimeoutError, HookfuseError):
            # Without its database there is no leader to look for, and that is told already.
            return frozenset()

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

    async def _notices(self) -> Sequence[Waiting]:
        try:
            async with asyncio.timeout(_DEADLINE):
                return await self._station.store.notices_waiting()
        except (TimeoutError, HookfuseError):
            return ()

    async def _count_processes(self) -> Mapping[Presence, int] | None:
        try:
            async with asyncio.timeout(_DEADLINE):
                return Counter(each.presence for each in await self._station.store.members())
        except (TimeoutError, HookfuseError):
            return None

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
