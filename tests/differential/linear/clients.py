"""Clients that do as they like to one breaker, all at the same time, and write down what they were told.

A seed says what each client likes; the operating system and the server say who comes first. So a seed brings back what
the clients do, and only by trying again the moment at which they do it.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeAlias

from hookfuse import Outcome
from hookfuse.testing.redis import ServerClock
from tests.differential.linear.history import Admit, Advance, Call, History, Inspect, Operation, Record, Release
from tests.differential.linear.model import COOL_OFF_MS, LEASE_MS, passing

CLIENTS = 8
_CALLS = (5, 6)
_STEPS_MS = (1, COOL_OFF_MS - 1, COOL_OFF_MS, COOL_OFF_MS, COOL_OFF_MS + 1, LEASE_MS)

HISTORIES = int(os.environ.get("HOOKFUSE_LINEAR_HISTORIES", "100"))
SEED = os.environ.get("HOOKFUSE_LINEAR_SEED")

Perform: TypeAlias = Callable[[Call], object]
PerformLater: TypeAlias = Callable[[Call], Awaitable[object]]
Wishes: TypeAlias = Generator[Call, object, None]


def seeds() -> Iterable[int]:
    """As many as there are histories to try; a given one is tried as often."""
    return range(HISTORIES) if SEED is None else itertools.repeat(int(SEED), HISTORIES)


def wishes(seed: int, client: int, *, throttles: bool) -> Wishes:
    """The calls of one client to an endpoint that fails at first and then recovers. Client 0 also turns the clock."""
    draw = random.Random(f"{seed} {client}")
    calls = draw.choice(_CALLS)
    held: list[str] = []
    for nth in range(calls):
        if client == 0 and draw.random() < 0.6:
            yield Advance(draw.choice(_STEPS_MS))
        elif draw.random() < 0.1:
            yield Inspect()
        elif held and draw.random() < 0.7:
            name = held.pop(draw.randrange(len(held)))
            outcome = _outcome(draw, recovers=nth > calls // 2, throttles=throttles)
            yield Release(name) if draw.random() < 0.1 else Record(name, outcome)
        else:
            name = f"{client}.{nth}"
            if passing((yield Admit(name))):
                held.append(name)


def _outcome(draw: random.Random, *, recovers: bool, throttles: bool) -> Outcome:
    if throttles and draw.random() < 0.06:
        return Outcome.throttled(1)
    return Outcome.OK if draw.random() < (0.6 if recovers else 0.1) else Outcome.FAILURE


class Log:
    """Operations in one order of all their beginnings and ends; taking the next number is atomic."""

    def __init__(self) -> None:
        self._moments = itertools.count()
        self._operations: list[Operation] = []

    def run(self, client: int, plan: Wishes, perform: Perform) -> None:
        result: object = None
        try:
            while True:
                result = self.note(client, plan.send(result), perform)
        except StopIteration:
            return

    def note(self, client: int, call: Call, perform: Perform) -> object:
        invoked = next(self._moments)
        result = perform(call)
        self._operations.append(Operation(client, call, result, invoked, next(self._moments)))
        return result

    async def run_task(self, client: int, plan: Wishes, perform: PerformLater) -> None:
        result: object = None
        try:
            while True:
                call = plan.send(result)
                invoked = next(self._moments)
                result = await perform(call)
                self._operations.append(Operation(client, call, result, invoked, next(self._moments)))
        except StopIteration:
            return

    @property
    def history(self) -> History:
        return tuple(self._operations)


def in_threads(pool: ThreadPoolExecutor, seed: int, performers: Sequence[Perform], throttles: bool = True) -> History:
    """One thread for each performer."""
    log, together = Log(), Barrier(len(performers))

    def live(client: int, perform: Perform) -> None:
        together.wait()
        log.run(client, wishes(seed, client, throttles=throttles), perform)

    for ended in [pool.submit(live, client, perform) for client, perform in enumerate(performers)]:
        ended.result()
    return log.history


async def in_tasks(seed: int, performers: Sequence[PerformLater], throttles: bool = True) -> History:
    """One task for each performer."""
    log = Log()
    plans = (wishes(seed, client, throttles=throttles) for client in range(len(performers)))
    await asyncio.gather(*(log.run_task(*each) for each in zip(range(len(performers)), plans, performers, strict=True)))
    return log.history


def one_by_one(perform: Perform, calls: Iterable[Call]) -> History:
    """A history without any concurrency."""
    log = Log()
    for call in calls:
        log.note(0, call, perform)
    return log.history


class Caller:
    """One client's way to breakers of either face."""

    def __init__(self, breakers: Any, clock: ServerClock, key: str) -> None:
        self._breakers = breakers
        self._clock = clock
        self._key = key
        self._admissions: dict[str, Any] = {}

    def perform(self, call: Call) -> object:
        return self._keep(call, self._ask(call))

    async def perform_later(self, call: Call) -> object:
        if isinstance(call, Advance):
            return await asyncio.to_thread(self.perform, call)
        return self._keep(call, await self._ask(call))

    def _ask(self, call: Call) -> Any:
        """What the breakers' method gives: a result, or an awaitable for one."""
        match call:
            case Admit():
                return self._breakers.admit(self._key)
            case Record(name, outcome):
                return self._breakers.record(self._admissions.pop(name), outcome)
            case Release(name):
                return self._breakers.release(self._admissions.pop(name))
            case Inspect():
                return self._breakers.inspect(self._key)
            case Advance(ms):
                return self._clock.advance(ms / 1000)

    def _keep(self, call: Call, result: Any) -> object:
        if isinstance(call, Admit) and result.allowed:
            self._admissions[call.name] = result
        return result
