"""Keeps in the database what must survive the loss of the breakers' store, and puts it back.

Overrides and disabled breakers live in Redis, where every worker hears of them, and beside that in the database.
Which life of its data Redis is in says whether it lost them: a flush, or an empty server in its place, begins another.
Then they are put back, and the sample that follows rebuilds the rest from the tallies. Generations go on above the
newest that the database has seen, so none is given out twice.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.duty import Tenure
from hookfuse.core.sample import Glance
from hookfuse.core.standing import Memory, Standing, standing_of
from hookfuse.core.state import DISABLED, NOT_FORCED, Override, Snapshot, Transition
from hookfuse.delivery.targets import Targets
from hookfuse.errors import InvalidInput
from hookfuse.ports import DeliveryStore

_log = logging.getLogger("hookfuse.delivery")

_ACTOR = "restored"


async def keep_standing(store: DeliveryStore, breakers: AsyncBreakers, key: str) -> None:
    """After an order of an operator: should this process die before, whoever leads writes it."""
    seen = await breakers.inspect(key)
    standing = standing_of(seen)
    if standing is not None:
        await store.keep_standings([standing])
    else:
        await store.keep_standings([], [Standing(key, NOT_FORCED, None, False, "", seen.generation)])


class Keeper:
    def __init__(self, store: DeliveryStore, breakers: AsyncBreakers, targets: Targets) -> None:
        self._store = store
        self._breakers = breakers
        self._targets = targets
        self._changed: set[str] = set()
        self._listens = False
        self._fence: int | None = None
        self._memory = Memory()
        self._life = ""

    async def look(self, tenure: Tenure | None) -> tuple[int, bool]:
        """Bring both sides in step. Returns above which generation to go on, and whether breakers must be rebuilt."""
        anew = self._begin(tenure)
        self._memory = await self._store.breaker_memory()
        self._life = await self._breakers.life()
        if self._life == self._memory.life:
            await self._follow(tenure, everything=anew)
            return self._memory.generation if anew else 0, False
        if not self._memory.life:
            await self._follow(tenure, everything=True)
            return 0, False
        standings = await self._store.standings()
        _log.error("Redis has lost its breakers: %d standings are put back, the rest is rebuilt", len(standings))
        await self._breakers.judge((), fence=0 if tenure is None else tenure.fence, floor=self._memory.generation)
        await self._put_back(standings)
        return self._memory.generation, True

    async def keep(self, generation: int, tenure: Tenure | None) -> None:
        """A sample was made of this life of the data, and this is the newest generation there."""
        memory = Memory(self._life, max(generation, self._memory.generation))
        if memory != self._memory:
            await self._store.keep_breaker_memory(memory, tenure=tenure)

    def _begin(self, tenure: Tenure | None) -> bool:
        """Whether this is the first look of a tenure: what happened before was heard by someone else."""
        fence = 0 if tenure is None else tenure.fence
        if not self._listens:
            self._breakers.subscribe(self._heard)
            self._listens = True
        anew, self._fence = fence != self._fence, fence
        return anew

    def _heard(self, transition: Transition) -> None:
        disabled = DISABLED in (transition.before, transition.after)
        by_itself = transition.actor == "breaker" and transition.reason != "override_ended"
        if disabled or not by_itself or transition.override is not NOT_FORCED:
            self._changed.add(transition.key)

    async def _follow(self, tenure: Tenure | None, *, everything: bool) -> None:
        """Write down what has changed in Redis since it was last looked at."""
        # The database first: what it has was written after Redis had it.
        stored = {each.key: each for each in await self._store.standings()}
        changed, self._changed = self._changed, set()
        try:
            if everything:
                changed |= stored.keys() | {seen.key async for seen in self._breakers.unhealthy() if standing_of(seen)}
            if not changed:
                return
            found = await self._breakers.glance(changed)
            if await self._breakers.life() != self._life:
                # Lost while we looked: what is missing was not taken away by anyone.
                return
            await self._write(stored, found, tenure)
        except BaseException:
            self._changed |= changed
            raise

    async def _write(self, stored: Mapping[str, Standing], found: Glance, tenure: Tenure | None) -> None:
        kept: list[Standing] = []
        gone: list[Standing] = []
        lost: list[Standing] = []
        for seen in found.breakers:
            standing, before = standing_of(seen), stored.get(seen.key)
            if standing is not None and (before is None or before.generation < standing.generation):
                kept.append(standing)
            elif standing is None and before is not None:
                (gone if self._is_gone(seen, before, found.now) else lost).append(before)
        if kept or gone:
            await self._store.keep_standings(kept, gone, tenure=tenure)
        await self._put_back(lost)

    def _is_gone(self, seen: Snapshot, before: Standing, now: float) -> bool:
        """Ended, or taken away by someone; else a server that took over has never heard of it."""
        if before.until_ms is not None and not before.disabled and now * 1000 >= before.until_ms:
            return True
        heard = self._breakers.heard(seen.key)
        return max(seen.generation, heard or 0) >= before.generation

    async def _put_back(self, standings: Iterable[Standing]) -> None:
        for each in standings:
            guarded = await self._store.guarded_by(each.key)
            # So that it is disabled for as long as its own policy says.
            await self._targets.read([one.endpoint_id for one in guarded])
            if each.disabled:
                await self._breakers.disable(each.key, reason=each.reason, actor=_ACTOR)
            if each.override is not NOT_FORCED:
                await self._force(each)

    async def _force(self, standing: Standing) -> None:
        force = self._breakers.force_open if standing.override is Override.OPEN else self._breakers.force_closed
        until = None if standing.until_ms is None else standing.until_ms / 1000
        try:
            await force(standing.key, reason=standing.reason, until=until, actor=_ACTOR)
        except InvalidInput:
            # It has ended meanwhile.
            self._changed.add(standing.key)
