"""Does the fleet's common work in one process at a time.

Each duty is a lease: a row in the database that says who holds it and until when, by the database's clock. One
statement takes what is free and renews what is ours, so it works behind poolers of transactions, and nothing else is
needed to elect anyone. A leader that dies is replaced when its lease ends. One that is paused for longer may not know
that it was replaced, so whatever a duty writes carries its fence, and the stores refuse an old one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Self, TypeAlias

from hookfuse.core.duty import Duty, Tenure
from hookfuse.errors import StoreError
from hookfuse.ports.duties import Duties

Work: TypeAlias = Callable[[Tenure], Awaitable[None]]
"""Does a duty for as long as it is held; it is cancelled when it is not."""

LEASE = 6.0

_log = logging.getLogger("hookfuse.delivery")

_BEATS_PER_LEASE = 3


class Leader:
    """Takes, keeps and gives up duties. Enter it to begin; what it holds is free for others when it is left.

    What is done `beside` them, every process does for itself.
    """

    def __init__(
        self,
        store: Duties,
        work: Mapping[Duty, Work],
        *,
        holder: str,
        lease: float = LEASE,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]] = (),
    ) -> None:
        self._store = store
        self._work = dict(work)
        self._holder = holder
        self._lease = lease
        self._tenures: dict[Duty, Tenure] = {}
        self._tasks: dict[Duty, asyncio.Task[None]] = {}
        self._lost_at = 0.0
        self._beside = beside
        self._draws = random.Random()
        self._running: list[asyncio.Task[None]] = []

    @property
    def offers(self) -> frozenset[Duty]:
        """What this process would do if nobody else did."""
        return frozenset(self._work)

    @property
    def tenures(self) -> Mapping[Duty, Tenure]:
        """What this process holds, as far as it knows."""
        return self._tenures

    async def __aenter__(self) -> Self:
        self._running = [asyncio.create_task(each(), name="hookfuse-leader") for each in (self._beat_on, *self._beside)]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._heed({})
        try:
            await self._store.give_up_duties(self._holder)
        except StoreError as error:
            _log.warning("duties are free only when their lease ends: %s", error)

    async def beat(self) -> None:
        """Take and renew once, and do what is held now."""
        asked = time.monotonic()
        try:
            async with asyncio.timeout(self._lease * 2 / 3):
                held = await self._store.hold_duties(list(self._work), self._holder, int(self._lease * 1000))
        except (StoreError, TimeoutError) as error:
            _log.warning("duties wait for the database: %s", str(error) or "no answer in time")
            if time.monotonic() >= self._lost_at:
                await self._heed({})
            return
        # Counted from the question: the database granted it later, so by its clock it ends no sooner.
        self._lost_at = asked + self._lease
        await self._heed({each.duty: each for each in held})

    async def _beat_on(self) -> None:
        while True:
            await self.beat()
            # Not all processes at once.
            await asyncio.sleep(self._lease / _BEATS_PER_LEASE * self._draws.uniform(0.8, 1))

    async def _heed(self, held: Mapping[Duty, Tenure]) -> None:
        """Begin what is newly held, and end what is not held any more."""
        ended = []
        for duty, tenure in list(self._tenures.items()):
            if duty not in held or held[duty].fence != tenure.fence:
                _log.info("%s is no longer led from here", duty)
                ended.append(self._tasks.pop(duty))
                del self._tenures[duty]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        for duty, tenure in held.items():
            self._tenures[duty] = tenure
            running = self._tasks.get(duty)
            if running is None or running.done():
                self._tasks[duty] = asyncio.create_task(self._do(tenure), name=f"hookfuse-{duty}")

    async def _do(self, tenure: Tenure) -> None:
        try:
            await self._work[tenure.duty](tenure)
        except Exception:
            # Begun anew with the next beat: one duty's trouble is not the others'.
            _log.exception("%s went wrong here; it begins anew", tenure.duty)
