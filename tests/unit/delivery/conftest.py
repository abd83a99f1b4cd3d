"""A whole delivery system without a network: a real SQLite file, breakers of this process, a sender that obeys."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hookfuse import AsyncBreakers, Policy, Streak
from hookfuse.core.addresses import Networks
from hookfuse.core.delivery import Chosen, DeliveryState
from hookfuse.core.endpoint import Endpoint
from hookfuse.core.secret import Secret, SecretRing
from hookfuse.delivery.courier import Attempted
from hookfuse.delivery.targets import Defaults, Targets
from hookfuse.delivery.worker import Worker, WorkerSettings
from hookfuse.ports import DeliveryStore
from hookfuse.sealing import AesGcmSealer, MasterKeys
from hookfuse.stores.memory import MemoryStore
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing import ManualClock
from hookfuse.testing.delivery import Bench
from hookfuse.testing.sender import FakeSender

SECRET = Secret(bytes(range(32)))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Post:
    """The system, and short ways to say what tests say often."""

    def __init__(self, store: DeliveryStore, clock: ManualClock, *, at_once: bool) -> None:
        self.bench = Bench(store, clock)
        self.store = store
        self.clock = clock
        self.sender = FakeSender(at_once=at_once)
        self.sealer = AesGcmSealer(MasterKeys([bytes(32)]))
        self.attempts: list[Attempted] = []
        self.policy = Policy(trip=Streak(3), cool_off=30)
        self.targets = Targets(
            store, self.sealer, networks=Networks(allowed=("127.0.0.0/8",)), defaults=Defaults(policy=self.policy)
        )
        self.breakers = AsyncBreakers(MemoryStore(clock=clock), policy_for=self.targets.policy_for)

    def worker(self, **settings: Any) -> Worker:
        chosen = WorkerSettings(**{"poll": 0.01, "grace": 5, **settings})
        return Worker(self.store, self.breakers, self.sender, self.targets, chosen, on_attempt=self.attempts.append)

    @asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[Worker]:
        worker = self.worker(**settings)
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop()
            await running

    async def endpoint(self, id_: str = "ep_1", **settings: Any) -> Endpoint:
        if await self.store.application("app_1") is None:
            await self.bench.application()
        ring = json.dumps(SecretRing(SECRET).to_data()).encode()
        return await self.bench.endpoint(id_, secret=self.sealer.seal(ring, id_.encode()), **settings)

    async def until(self, state: DeliveryState, count: int, app_id: str = "app_1") -> None:
        """Wait until so many deliveries are in this state."""
        async with asyncio.timeout(20):
            while await self.store.count(Chosen(app_id, states=(state,))) != count:
                await asyncio.sleep(0.002)

    async def until_attempts(self, count: int) -> None:
        await became(lambda: len(self.attempts) >= count)

    async def until_quiet(self, worker: Worker) -> None:
        """Wait until the worker has nothing in hand, has written everything, and finds nothing more."""
        async with asyncio.timeout(20):
            for _ in range(3):
                while worker.in_hand or worker._settler.waiting or worker._settler._journey:
                    await asyncio.sleep(0.002)
                await asyncio.sleep(0.03)


async def became(true: Callable[[], bool]) -> None:
    """Wait until it is so: what a database shows, the process that asked for it may learn a moment later."""
    async with asyncio.timeout(20):
        while not true():
            await asyncio.sleep(0.002)


@pytest.fixture(params=[False, True], ids=["new connections", "kept connections"])
async def post(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Post]:
    """Once with a task for each delivery, and once with requests that are sent at once."""
    clock = ManualClock()
    store = SqliteStore(tmp_path / "hookfuse.db", clock=clock)
    await store.open()
    yield Post(store, clock, at_once=request.param)
    await store.close()
