"""A virtual day: a real database with tallies, breakers of this process, a sampler, and a clock turned by hand."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hookfuse import AsyncBreakers, Policy
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.tally import SLOT_MS, Tally
from hookfuse.delivery.sampler import Sampled, Sampler
from hookfuse.stores.memory import MemoryStore
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.stores.sqlite.queries import SQL
from hookfuse.testing import ManualClock

DAY = 86_400
STEP = SLOT_MS // 1000
"""Seconds: what happens within one slot is told to the database at once."""

APP = "app_1"


class World:
    def __init__(self, store: SqliteStore, clock: ManualClock, policy: Policy) -> None:
        self.store = store
        self.clock = clock
        self.breakers = AsyncBreakers(MemoryStore(clock=clock), policy=policy)
        self.sampler = Sampler(store, self.breakers, policy)

    def key(self, name: str) -> str:
        return f"{APP}/{name}"

    async def endpoints(self, names: Sequence[str], policies: Mapping[str, Policy] | None = None) -> None:
        await self.store.add_application(Application(APP, "bench"))
        for name in names:
            policy = (policies or {}).get(name)
            data: Any = None if policy is None else policy.to_dict()
            await self.store.add_endpoint(Endpoint(name, APP, "https://example.com", policy=data))

    async def settle(self, counted: Mapping[str, tuple[int, int, int]]) -> None:
        """What settling would have added in this slot: ok, failed, and the sum of latencies in ms, by endpoint."""
        slot_ms = int(self.clock.now() * 1000) // SLOT_MS * SLOT_MS
        rows = [Tally(slot_ms, name, ok, failed, 0, ms) for name, (ok, failed, ms) in counted.items()]
        await self.store._write(lambda db, now: db.executemany(SQL["add_tally"], rows))

    async def sample(self) -> Sampled:
        return await self.sampler.sample()


@asynccontextmanager
async def world(policy: Policy) -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory(prefix="hookfuse-bench-") as folder:
        clock = ManualClock()
        store = SqliteStore(f"{folder}/bench.db", clock=clock)
        await store.open()
        made = World(store, clock, policy)
        try:
            yield made
        finally:
            await made.breakers.close()
            await store.close()
