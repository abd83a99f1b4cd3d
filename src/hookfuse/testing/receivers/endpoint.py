"""One simulated endpoint: its behaviour, its counts, and who waits for it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hookfuse.testing.receivers.answers import Answer, Answerer, Arrival
from hookfuse.testing.receivers.behaviours import Behaviour

Choice: TypeAlias = Callable[[Arrival], Behaviour | Awaitable[Behaviour]]
"""A test's own function, which chooses a behaviour for each request; as a coroutine it may wait first."""

Verify: TypeAlias = Callable[[bytes, dict[str, str]], object]
"""Takes body and headers; raises if the signature is wrong."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What an endpoint has seen so far."""

    requests: int
    """Those that arrived whole."""
    in_flight: int
    """Requests whose headers arrived and whose answer is not finished."""
    most_in_flight: int
    answers: Mapping[int, int]
    """How often each status was chosen."""


class Endpoint:
    """Counts are plain attributes, because the fastest sink is the one that does least."""

    __slots__ = (
        "_waiters",
        "answer",
        "answers",
        "behaviour",
        "choice",
        "in_flight",
        "instant",
        "instant_status",
        "most_in_flight",
        "name",
        "requests",
        "url",
        "verify",
    )

    def __init__(self, name: str, url: str, behaviour: Behaviour | Choice, verify: Verify | None) -> None:
        self.name = name
        self.url = url
        self.verify = verify
        self.requests = 0
        self.in_flight = 0
        self.most_in_flight = 0
        self.answers: Counter[int] = Counter()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.behave(behaviour)

    def behave(self, behaviour: Behaviour | Choice) -> None:
        """From the next request on."""
        self.behaviour = behaviour
        self.choice: Choice | None = None
        self.answer: Answerer | None = None
        self.instant: bytes | None = None
        self.instant_status: int = 0
        if callable(behaviour):
            self.choice = behaviour
            return
        begun = behaviour.begin()
        if isinstance(begun, Answer):
            self.instant = begun.at_once if begun.status is not None else None
            self.instant_status = begun.status or 0
            self.answer = lambda _: begun
        else:
            self.answer = begun

    @property
    def counts(self) -> Counts:
        return Counts(self.requests, self.in_flight, self.most_in_flight, dict(self.answers))

    async def arrived(self, requests: int) -> None:
        """Return once so many requests have arrived since the beginning."""
        if self.requests < requests:
            reached = asyncio.get_running_loop().create_future()
            self._waiters.append((requests, reached))
            await reached

    def begun(self) -> None:
        self.in_flight += 1
        if self.in_flight > self.most_in_flight:
            self.most_in_flight = self.in_flight

    def took(self) -> None:
        self.requests += 1
        if self._waiters:
            self._wake()

    def _wake(self) -> None:
        due = [waiter for waiter in self._waiters if waiter[0] <= self.requests]
        self._waiters = [waiter for waiter in self._waiters if waiter[0] > self.requests]
        for _, reached in due:
            if not reached.done():
                reached.set_result(None)
