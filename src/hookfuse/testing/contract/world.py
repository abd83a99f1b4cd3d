"""What a contract test stands on: a store, the clock it decides by, and breakers of either face over it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

import pytest

from hookfuse.breakers import AsyncBreakers, Breakers
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Transition
from hookfuse.ports import BreakerStore


class TurnableClock(Protocol):
    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...


class InThreads:
    """`Breakers` that first hear of all that other callers did, so that no test depends on a delay."""

    def __init__(self, store: BreakerStore, **settings: Any) -> None:
        self._breakers = Breakers(store, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._breakers, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            self.catch_up()
            result = method(*args, **kwargs)
            result = list(result) if isinstance(result, Iterator) else result
            self.catch_up()
            return result

        return run

    def run(self, form: str, work: Callable[[], Any], *, key: Any, **settings: Any) -> Any:
        """Call `work` as a protected function, or in a guarded block."""
        self.catch_up()
        try:
            if form == "protected":
                return self._breakers.protect(key=key, **settings)(work)()
            with self._breakers.guard(key, **settings):
                return work()
        finally:
            self.catch_up()

    def catch_up(self) -> None:
        self._breakers.catch_up()

    def close(self) -> None:
        self._breakers.close()


class InTasks:
    """`AsyncBreakers` with the coroutines run to their end, so that one test reads the same for both faces."""

    def __init__(self, store: BreakerStore, **settings: Any) -> None:
        self._runner = asyncio.Runner()
        self._breakers = AsyncBreakers(store, **settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._breakers, name)

        def run(*args: Any, **kwargs: Any) -> Any:
            async def call() -> Any:
                await self._breakers.catch_up()
                result = method(*args, **kwargs)
                if isinstance(result, AsyncIterator):
                    result = [each async for each in result]
                elif inspect.isawaitable(result):
                    result = await result
                await self._breakers.catch_up()
                return result

            return self._runner.run(call())

        return run

    def run(self, form: str, work: Callable[[], Any], *, key: Any, **settings: Any) -> Any:
        async def function() -> Any:
            return work()

        async def call() -> Any:
            await self._breakers.catch_up()
            try:
                if form == "protected":
                    return await self._breakers.protect(key=key, **settings)(function)()
                async with self._breakers.guard(key, **settings):
                    return await function()
            finally:
                await self._breakers.catch_up()

        return self._runner.run(call())

    def catch_up(self) -> None:
        self._runner.run(self._breakers.catch_up())

    def close(self) -> None:
        self._runner.run(self._breakers.close())
        self._runner.close()


FACES: dict[str, Callable[..., Any]] = {"threads": InThreads, "tasks": InTasks}


class World:
    """A store and its clock; `face` chooses how the tests talk to it. `settings` go to the breakers."""

    def __init__(self, store: BreakerStore, clock: TurnableClock, **settings: Any) -> None:
        self.store = store
        self.clock = clock
        self.face = "threads"
        self._settings = settings
        self._seen: list[Transition] = []
        self._opened: list[Any] = []

    @property
    def seen(self) -> list[Transition]:
        """Every transition that was announced so far."""
        for made in self._opened:
            made.catch_up()
        return self._seen

    def breakers(self, policy: Policy, **settings: Any) -> Any:
        """Breakers over the store, whose transitions are collected in `seen`."""
        made = self.another(policy, **settings)
        made.subscribe(self._seen.append)
        return made

    def another(self, policy: Policy, **settings: Any) -> Any:
        """A second caller's breakers over the same store, such as another worker's."""
        made = FACES[self.face](self.store, policy=policy, **self._settings, **settings)
        self._opened.append(made)
        return made

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()

    def fail(self, breakers: Any, key: str = "ep", times: int = 1, **details: Any) -> Transition | None:
        return self._report(breakers, key, times, Outcome.FAILURE, details)

    def succeed(self, breakers: Any, key: str = "ep", times: int = 1, **details: Any) -> Transition | None:
        return self._report(breakers, key, times, Outcome.OK, details)

    def _report(
        self, breakers: Any, key: str, times: int, outcome: Outcome, details: dict[str, Any]
    ) -> Transition | None:
        made = None
        for _ in range(times):
            made = breakers.record(breakers.admit(key), outcome, **details)
        return made


class OnBothFaces:
    """Runs every test of a class on both faces."""

    @pytest.fixture(autouse=True, params=list(FACES))
    def _face(self, request: pytest.FixtureRequest, world: World) -> Iterator[None]:
        world.face = request.param
        yield
        world.close()
