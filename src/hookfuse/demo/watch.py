"""What has happened so far, and waiting for more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from hookfuse.app.station import Station
from hookfuse.core.delivery import Chosen, DeliveryState, Place
from hookfuse.core.state import Snapshot, State, Transition
from hookfuse.demo.books import Books
from hookfuse.demo.doomed import doomed, periods, within
from hookfuse.demo.receivers import Change, Conduct
from hookfuse.errors import HookfuseError, StoreError

T = TypeVar("T")
Look: TypeAlias = Callable[[], Awaitable[T | None]]

_LOOK_EVERY = 0.1
_PAGE = 1_000
_WAITING = (DeliveryState.PENDING, DeliveryState.SENDING)


class Missed(HookfuseError):
    """A turn of the story did not happen. The message says which."""


@dataclass(frozen=True, slots=True)
class CoolOff:
    """How long a trip keeps its breaker open."""

    generation: int
    seconds: float


class Watch:
    """Hears every transition from the moment it is made; asks the store when it is asked."""

    def __init__(self, station: Station, books: Books) -> None:
        self._station = station
        self._books = books
        self.told: Callable[[Transition], None] = lambda made: None
        """Hears of transitions, too."""
        self._happened = asyncio.Event()
        self._looking: set[asyncio.Task[None]] = set()
        station.breakers.subscribe(self._changed)
        self.transitions: list[Transition] = []
        self.cool_offs: dict[str, list[CoolOff]] = {}
        """By the breakers' keys, in order."""

    def wake(self) -> None:
        """Something happened that may be waited for."""
        self._happened.set()

    async def until(self, look: Look[T], seconds: float, missing: str) -> T:
        """What `look` finds, as soon as it is something true; `missing` says what did not happen."""
        deadline = time.monotonic() + seconds
        while not (found := await look()):
            left = deadline - time.monotonic()
            if left <= 0:
                raise Missed(f"{missing} (waited for {seconds:.0f} s).")
            self._happened.clear()
            try:
                # The store has no bell for what is asked of it here, so it is asked again after a while.
                async with asyncio.timeout(min(left, _LOOK_EVERY)):
                    await self._happened.wait()
            except TimeoutError:
                continue
        return found

    def first(self, key: str, after: State) -> Transition | None:
        """The first transition of a breaker to this state."""
        return next((each for each in self.transitions if each.key == key and each.after is after), None)

    async def waiting(self, app_id: str, endpoint_id: str | None = None) -> int:
        """Deliveries that are not at their end, by the store."""
        return await self._station.store.count(Chosen(app_id, endpoint_id, states=_WAITING))

    async def inspect(self, key: str) -> Snapshot:
        """A breaker as it is now."""
        return await self._station.breakers.inspect(key)

    async def states(self, app_id: str) -> dict[Place, DeliveryState]:
        """The state of every delivery, by the store."""
        found: dict[Place, DeliveryState] = {}
        after: Place | None = None
        while page := await self._station.store.deliveries(Chosen(app_id), after=after, limit=_PAGE):
            found |= {Place(each.message_id, each.endpoint_id): each.state for each in page}
            after = Place(page[-1].message_id, page[-1].endpoint_id)
        return found

    async def avoided(self, endpoint_id: str, key: str, changes: Sequence[Change], delays: Sequence[float]) -> int:
        """Doomed requests to an endpoint that its breaker avoided; `changes` are those of its receiver."""
        now = time.time()
        broken = periods(((each.at, each.conduct is Conduct.DEAD) for each in changes), now)
        if not broken:
            return 0
        mine = (each for each in self.transitions if each.key == key)
        refusing = periods(((each.at, each.after is not State.CLOSED) for each in mine), now)
        vain = doomed(self._books.accepted.values(), delays, broken, now)
        made = within(await self._attempts(endpoint_id), broken)
        return len(within(vain, refusing)) - len(within(made, refusing))

    async def _attempts(self, endpoint_id: str) -> list[float]:
        """When requests were made to an endpoint, by the store."""
        return [
            each.at_ms / 1000
            for message in self._books.accepted
            for each in await self._station.store.attempts(message, endpoint_id)
        ]

    def _changed(self, made: Transition) -> None:
        self.transitions.append(made)
        self.told(made)
        self.wake()
        if made.after is State.OPEN:
            task = asyncio.get_running_loop().create_task(self._note_cool_off(made), name="demo-cool-off")
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def _note_cool_off(self, made: Transition) -> None:
        try:
            seen = await self.inspect(made.key)
        except StoreError:
            return
        # On a machine that is late the breaker may have moved on; the next trip tells as well.
        if seen.generation == made.generation and seen.probe_at is not None and seen.opened_at is not None:
            found = CoolOff(made.generation, seen.probe_at - seen.opened_at)
            self.cool_offs.setdefault(made.key, []).append(found)
            self.wake()
