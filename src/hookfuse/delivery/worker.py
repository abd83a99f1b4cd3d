"""The loop that claims what is due and hands it to couriers, with back-pressure and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from hookfuse.breakers import AsyncBreakers
from hookfuse.core import signing
from hookfuse.core.delivery import Claim, Claims, Deferral
from hookfuse.core.state import State, Transition
from hookfuse.delivery.claimer import Claimer
from hookfuse.delivery.courier import Attempted, Courier, Flight, OnAttempt
from hookfuse.delivery.egress import EgressWatch
from hookfuse.delivery.settler import Settler
from hookfuse.delivery.silence import Out, Silence
from hookfuse.delivery.suspects import Suspects
from hookfuse.delivery.targets import Target, Targets
from hookfuse.errors import InvalidInput, StoreError
from hookfuse.ports import DeliveryStore, Sender

_log = logging.getLogger("hookfuse.delivery")

_FAILING_SHARE = 10
_EFFORT_AT_ONCE = 32
_TASK_EFFORT = 8
"""A new connection, or a breaker that has to be asked, takes about so many times as long as a request on a kept one."""
_LONGEST_BREATH = 0.04
"""Seconds. After a claim that brought little, the worker waits as long as it took, so that the next one brings more:
the busier the machine, the longer, and whoever comes to an idle one hardly waits."""
_LOOKS_APART = 0.02
"""Seconds between looks at who does not answer, at least."""
_LOOKING_SHARE = 20
"""One part in so many of a worker's time is for looking: the more requests are out, the longer each look takes."""


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How much a worker does at once, and how long it may take.

    slots            requests in flight at most; as many again may be set aside because they are not answered
    batch            deliveries in one claim at most
    lease            seconds after which a lost worker's claims come back
    longest_timeout  the longest request deadline that an endpoint may have
    margin           seconds by which a lease must be longer than that
    poll             seconds after which it looks for work though nothing was heard
    rescue_every     seconds between looks for lost workers' claims
    deaths           lost workers that make a delivery fail
    grace            seconds for requests in flight when it is asked to stop
    """

    slots: int = 2048
    batch: int = 1024
    lease: float = 300.0
    longest_timeout: float = 30.0
    margin: float = 5.0
    poll: float = 1.0
    rescue_every: float = 3.0
    deaths: int = 3
    grace: float = 20.0

    def __post_init__(self) -> None:
        if self.lease <= self.longest_timeout + self.margin:
            raise InvalidInput(
                f"The lease ({self.lease:g} s) must be longer than the longest request ({self.longest_timeout:g} s) "
                f"and {self.margin:g} s more, or deliveries are sent twice; make it longer, or the timeout shorter."
            )
        if self.slots < 1 or self.batch < 1 or self.deaths < 1:
            raise InvalidInput("slots, batch and deaths must be at least 1.")


class Worker:
    """Delivers until it is told to stop. One per process is enough."""

    def __init__(
        self,
        store: DeliveryStore,
        breakers: AsyncBreakers,
        sender: Sender,
        targets: Targets,
        settings: WorkerSettings | None = None,
        *,
        sign_ed25519: signing.SignEd25519 | None = None,
        egress: EgressWatch | None = None,
        on_attempt: OnAttempt = lambda attempted: None,
        on_lost: Callable[[Sequence[Claim]], None] = lambda claims: None,
    ) -> None:
        self.settings = settings or WorkerSettings()
        self._store = store
        self._breakers = breakers
        self._targets = targets
        self._on_attempt = on_attempt
        self._on_lost = on_lost
        self._offset = 0.0
        self._claim_took = 0.0
        self._room = asyncio.Event()
        self._claimer = Claimer(store, self.settings.lease)
        self._settler = Settler(store, self._lost, self._written)
        self._courier = Courier(
            store,
            breakers,
            sender,
            targets,
            self._settler,
            now=self.now,
            egress=egress,
            sign_ed25519=sign_ed25519,
            on_attempt=self._attempted,
        )
        # Both in the order in which they began.
        self._hands: dict[asyncio.Task[None], Out] = {}
        self._flights: dict[Flight, None] = {}
        # Not by the database's clock: what we know of it jumps with every claim that is answered late.
        self._silence = Silence(self.settings.slots, time.monotonic)
        self._look_at = 0.0
        self._claimed: Sequence[Claim] = ()
        self._to_begin: deque[Claim] = deque()
        self._dial_before = 0.0
        self._handing: asyncio.Task[None] | None = None
        self._failing = 0
        self._suspects = Suspects()
        self._stopping = asyncio.Event()

    def now(self) -> float:
        """Unix seconds by the database's clock, as of the last claim."""
        return time.time() + self._offset

    @property
    def in_hand(self) -> int:
        """Deliveries that are claimed and not concluded."""
        return len(self._hands) + len(self._flights) + len(self._to_begin) + len(self._claimed)

    @property
    def busy(self) -> int:
        """Slots that are taken."""
        return self.in_hand - self.set_aside

    @property
    def set_aside(self) -> int:
        """Requests that are out without a slot, because nobody answers."""
        self._look()
        return min(self._silence.set_aside, self.in_hand)

    def stop(self) -> None:
        """Claim nothing more; `run` returns when what is in flight has ended, or after the grace."""
        self._stopping.set()
        self._room.set()

    async def run(self) -> None:
        subscription = self._breakers.subscribe(self._changed)
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                claims = await self._claim()
                if claims is not None and claims.claims:
                    await self._begin_with(claims.claims)
                    if len(claims.claims) < self.settings.batch // 4:
                        await asyncio.sleep(min(self._claim_took, _LONGEST_BREATH))
                else:
                    await self._rest(claims, stopping)
            await self._handed_out()
        finally:
            subscription.close()
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            await self._finish()

    async def _claim(self) -> Claims | None:
        """What is due, as soon as there is room for some of it; None: the database is away."""
        wanted = min(self.settings.batch, self.settings.slots)
        while self._free() < max(1, wanted // 4) and not self._stopping.is_set():
            await self._until_room()
        if self._stopping.is_set():
            return None
        # A worker of few slots too must try failing lanes, or they would never recover.
        in_hand = self._failing + sum(claim.failing for claim in self._to_begin)
        failing = max(0, max(1, self.settings.slots // _FAILING_SHARE) - in_hand)
        began = time.monotonic()
        self._dial_before = began + self.settings.lease - self.settings.longest_timeout - self.settings.margin
        try:
            claims = await self._claimer.claim(min(self._free(), wanted), failing)
        except StoreError as error:
            _log.warning("claiming waits for the database: %s", error)
            return None
        self._claim_took = time.monotonic() - began
        self._offset = claims.now_ms / 1000 - time.time()
        return claims

    def _free(self) -> int:
        return self.settings.slots - self.busy - self._settler.waiting

    async def _until_room(self) -> None:
        """Something has ended, or it is time to look again at who does not answer."""
        self._room.clear()
        looking = asyncio.get_running_loop().call_later(_LOOKS_APART, self._room.set)
        try:
            await self._room.wait()
        finally:
            looking.cancel()

    def _look(self) -> None:
        """See who does not answer."""
        now = time.monotonic()
        if now >= self._look_at:
            flights = (Out(each.claim.endpoint_id, each.began, each.target.timeout) for each in self._flights)
            self._silence.look(flights, self._hands.values())
            looked = time.monotonic()
            self._look_at = looked + max(_LOOKS_APART, _LOOKING_SHARE * (looked - now))

    def _attempted(self, attempted: Attempted) -> None:
        if attempted.result.status is not None:
            self._silence.answered(attempted.claim.endpoint_id)
        self._on_attempt(attempted)

    async def _begin_with(self, claims: Sequence[Claim]) -> None:
        """Hand these out after those before them. Returns at once, so that the next can be claimed meanwhile."""
        self._claimed = claims
        await self._handed_out()
        self._to_begin, self._claimed = deque(claims), ()
        handing = self._hand_out(claims, self._dial_before)
        self._handing = asyncio.create_task(handing, name="hookfuse-hand-out")
        if any(claim.deaths for claim in claims):
            # One of them may be tried alone: nothing else is to be in hand then.
            await self._handed_out()

    async def _handed_out(self) -> None:
        if self._handing is not None:
            await self._handing

    async def _hand_out(self, claims: Sequence[Claim], dial_before: float) -> None:
        """Begin with claims, a few in each turn of the loop, so that answers and the next claim do not wait for all."""
        try:
            targets = await self._targets.of(claims)
            taken, refused = self._suspects.sift(self._of_who_answers(claims))
            self._to_begin = deque(taken)
            if refused and not await self._give_back(refused):
                return
            while self._to_begin and not self._stopping.is_set():
                effort = 0
                while self._to_begin and effort < _EFFORT_AT_ONCE:
                    claim = self._to_begin.popleft()
                    effort += 1 if self._start(claim, targets.get(claim.endpoint_id), dial_before) else _TASK_EFFORT
                await asyncio.sleep(0)
            await self._suspects.trial()
        except StoreError as error:
            _log.warning("reading endpoints waits for the database: %s", error)
        finally:
            for claim in self._to_begin:
                self._settler.defer(Deferral(claim, "released"))
            self._to_begin.clear()
            self._room.set()

    def _of_who_answers(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Those that may have slots; the others are put off."""
        taken, put_off = self._silence.sift(claims)
        for each in put_off:
            self._settler.defer(each)
        return taken

    async def _give_back(self, deferrals: Sequence[Deferral]) -> bool:
        """Now, without waiting for the settler's next journey; false: later, because the database is away."""
        given_back = False
        try:
            await self._store.defer(deferrals)
            given_back = True
        except StoreError as error:
            _log.warning("giving back claims waits for the database: %s", error)
        finally:
            if not given_back:
                for each in deferrals:
                    self._settler.defer(each)
        return given_back

    def _start(self, claim: Claim, target: Target | None, dial_before: float) -> bool:
        """Whether the request is on its way; if not, a task will see to it."""
        self._failing += claim.failing
        flight = self._courier.launch(claim, target, dial_before, self._landed)
        if flight is None:
            self._take_in_hand(claim, target, self._courier.deliver(claim, target, dial_before))
            return False
        self._flights[flight] = None
        return True

    def _landed(self, flight: Flight, rest: Coroutine[Any, Any, None] | None) -> None:
        self._flights.pop(flight, None)
        if rest is None:
            self._ended(flight.claim)
        else:
            self._take_in_hand(flight.claim, flight.target, rest)

    def _take_in_hand(self, claim: Claim, target: Target | None, steps: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(steps)
        self._hands[task] = Out(claim.endpoint_id, time.monotonic(), inf if target is None else target.timeout)

        def ended(task: asyncio.Task[None]) -> None:
            del self._hands[task]
            self._ended(claim)

        task.add_done_callback(ended)

    def _ended(self, claim: Claim) -> None:
        self._failing -= claim.failing
        self._room.set()

    async def _rest(self, claims: Claims | None, stopping: asyncio.Task[bool]) -> None:
        """Until something is due, something was heard, or it is time to look anyway."""
        if self._stopping.is_set():
            return
        if claims is None:
            await asyncio.wait([stopping], timeout=self.settings.poll)
            return
        seconds = self.settings.poll if claims.wait_ms is None else min(claims.wait_ms / 1000, self.settings.poll)
        waiting = asyncio.ensure_future(self._store.wait(max(seconds, 0.001)))
        await asyncio.wait([waiting, stopping], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    def _changed(self, transition: Transition) -> None:
        """Lanes that are blocked by a breaker are looked at again when it is decided, one way or the other."""
        by_hand = transition.actor != "breaker" and transition.after is not State.DISABLED
        # Half open is no decision: what waits for its probe would only be turned away.
        if transition.after in (State.CLOSED, State.OPEN) or by_hand:
            self._settler.unblock(self._targets.endpoints_of(transition.key))

    def _written(self, claims: Sequence[Claim]) -> None:
        self._suspects.written(claims)
        self._room.set()

    def _lost(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            _log.warning("the lease of %s to %s was lost before it was settled", claim.message_id, claim.endpoint_id)
        self._on_lost(claims)

    async def _landed_and_done(self) -> None:
        while self._flights or self._hands:
            self._room.clear()
            await self._room.wait()

    async def _finish(self) -> None:
        """Let what is in flight end, give back the rest, and write everything down."""
        self._stopping.set()
        if self._handing is not None:
            await asyncio.wait([self._handing])
        late = await self._claimer.late(self.settings.margin)
        for claim in (*self._to_begin, *self._claimed, *late):
            self._settler.defer(Deferral(claim, "released"))
        self._to_begin.clear()
        self._claimed = ()
        try:
            async with asyncio.timeout(self.settings.grace):
                await self._landed_and_done()
        except TimeoutError:
            pass
        for flight in self._flights:
            flight.give_up()
            self._courier.release(flight.claim)
        self._flights.clear()
        for task in list(self._hands):
            task.cancel()
        await asyncio.gather(*self._hands, return_exceptions=True)
        try:
            async with asyncio.timeout(self.settings.margin):
                await self._settler.flush()
                await self._claimer.last_look()
        except TimeoutError:
            _log.warning(
                "the database does not answer: %d deliveries, and those of %d claims whose answer was lost, "
                "come back when their leases end",
                self._settler.waiting,
                self._claimer.unanswered,
            )
