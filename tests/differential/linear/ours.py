"""Our breakers in Redis, strict, with a client for each thread or task and a server clock that one of them turns."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from hookfuse import AsyncBreakers, Breakers
from hookfuse.core.admission import Admission
from hookfuse.testing.redis import store_with_clock
from tests.differential.linear.clients import CLIENTS, Caller, in_tasks, in_threads, one_by_one
from tests.differential.linear.history import Call, History
from tests.differential.linear.model import POLICY, Model

_TASKS_PER_SESSION = 2


def started(nobody: Admission) -> Model:
    """The model of an unknown key: the answer to a first `admit`, which writes nothing, tells time and sequence."""
    return Model(nobody.key, nobody.at_ms, nobody.generation)


class InThreads:
    """A thread and a session for each client."""

    def __init__(self, url: str, pool: ThreadPoolExecutor, swapped: dict[str, str] | None = None) -> None:
        self._pool = pool
        store, self._clock = store_with_clock(url, shards=1, swapped=swapped)
        self._sessions = [Breakers(store, policy=POLICY, outage="deny", consistency="strict") for _ in range(CLIENTS)]

    def run(self, seed: int, key: str) -> tuple[Model, History]:
        start = started(self._sessions[0].admit(key))
        performers = [Caller(session, self._clock, key).perform for session in self._sessions]
        return start, in_threads(self._pool, seed, performers)

    def run_singly(self, calls: Sequence[Call], key: str) -> tuple[Model, History]:
        start = started(self._sessions[0].admit(key))
        return start, one_by_one(Caller(self._sessions[0], self._clock, key).perform, calls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions:
            session.close()
        self._clock.close()


class InTasks:
    """A task for each client; two share a session, which sends what both ask in one tick as one batch."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner()
        store, self._clock = store_with_clock(url, shards=1)
        self._sessions = [
            AsyncBreakers(store, policy=POLICY, outage="deny", consistency="strict")
            for _ in range(CLIENTS // _TASKS_PER_SESSION)
        ]

    def run(self, seed: int, key: str) -> tuple[Model, History]:
        return self._runner.run(self._run(seed, key))

    async def _run(self, seed: int, key: str) -> tuple[Model, History]:
        start = started(await self._sessions[0].admit(key))
        sessions = self._sessions * _TASKS_PER_SESSION
        return start, await in_tasks(seed, [Caller(session, self._clock, key).perform_later for session in sessions])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self._sessions:
            self._runner.run(session.close())
        self._runner.close()
        self._clock.close()
