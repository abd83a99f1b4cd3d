"""Sampling on the real stores: a delivery store, a store of breakers, and one time for both that is turned by hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hookfuse import AsyncBreakers, Policy
from hookfuse.core.addresses import Networks
from hookfuse.core.delivery import Claim, DeliveryState, Settlement
from hookfuse.core.duty import Duty, Tenure
from hookfuse.core.state import Snapshot
from hookfuse.delivery.keeper import Keeper
from hookfuse.delivery.sampler import Sampled, Sampler
from hookfuse.delivery.targets import Defaults, Targets
from hookfuse.ports import BreakerStore, DeliveryStore
from hookfuse.sealing import AesGcmSealer, MasterKeys
from hookfuse.stores.kept import KeptBreakers
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.testing import ManualClock
from hookfuse.testing import redis as testing_redis
from hookfuse.testing.delivery import Bench
from hookfuse.testing.delivery.bench import TurnableClock
from hookfuse.testing.postgres import store_with_clock

FIRST = Tenure(Duty.SAMPLING, "first", 0, 1, 0)
_FOREVER_MS = 10**12


class Clocks:
    """Several clocks that are turned together."""

    def __init__(self, *clocks: TurnableClock) -> None:
        self.clocks = clocks

    def now(self) -> float:
        return self.clocks[0].now()

    def advance(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)


class Fleet:
    """One process of a fleet, and short ways to say what tests say often."""

    def __init__(
        self, store: DeliveryStore, breaker_store: BreakerStore, clock: TurnableClock, *, shared: bool
    ) -> None:
        self.bench = Bench(store, clock)
        self.store = store
        self.clock = clock
        self.shared = shared
        self._breaker_store = breaker_store
        self.targets = self._targets(Policy())
        self.breakers = self.process()
        self.sampler = self.another()

    def process(self) -> AsyncBreakers:
        """The breakers as another process has them."""
        return AsyncBreakers(self._breaker_store, policy_for=self.targets.policy_for)

    def another(self, default: Policy | None = None) -> Sampler:
        """A sampler that knows nothing yet."""
        keeper = Keeper(self.store, self.breakers, self.targets) if self.shared else None
        return Sampler(self.store, self.breakers, default or Policy(), keeper)

    async def endpoint(self, id_: str = "ep_1", policy: Policy | None = None, **settings: Any) -> str:
        """An endpoint with an application of its own; returns its breaker's key."""
        app_id = settings.pop("app_id", f"app_{id_}")
        if await self.store.application(app_id) is None:
            await self.bench.application(app_id, policy=settings.pop("app_policy", None))
        data = None if policy is None else policy.to_dict()
        made = await self.bench.endpoint(id_, app_id, policy=data, **settings)
        await self.targets.read([id_])
        return made.key

    async def change(self, id_: str, policy: Policy) -> None:
        await self.store.change_endpoint(id_, {"policy": policy.to_dict()})
        await self.targets.read([id_])

    async def attempts(self, ok: int = 0, failed: int = 0, *, id_: str = "ep_1", **attempt: Any) -> None:
        """So many attempts that end now."""
        (endpoint,) = await self.store.endpoints([id_])
        for _ in range(ok + failed):
            await self.store.accept_for(self.bench.message(endpoint.app_id), id_)
        left = [True] * ok + [False] * failed
        while left:
            claims = [claim for claim in await self.bench.claim() if claim.endpoint_id == id_]
            assert claims, "nothing can be claimed"
            await self.store.settle([self._settlement(claim, left.pop(), **attempt) for claim in claims])

    def _settlement(self, claim: Claim, healthy: bool, **attempt: Any) -> Settlement:
        state = DeliveryState.SENT if healthy else DeliveryState.FAILED
        slow = attempt.pop("slow", False)
        return Settlement(claim, state, "x", self.bench.attempt(claim, **attempt), healthy=healthy, slow=slow)

    async def forget_tallies(self) -> None:
        await self.store.prune_tallies(-1)

    async def sample(self, tenure: Tenure = FIRST) -> Sampled:
        # The mirror of this process must not be what decides.
        await self.breakers.catch_up()
        return await self.sampler.sample(tenure)

    async def lead(self, holder: str = "first") -> Tenure:
        """Take the duty from whoever has it."""
        await self.store.give_up_duties("first")
        (tenure,) = await self.store.hold_duties([Duty.SAMPLING], holder, _FOREVER_MS)
        return tenure

    async def state(self, key: str) -> Snapshot:
        return await self.breakers.inspect(key)

    async def disabled(self, id_: str = "ep_1") -> tuple[bool, str]:
        (found,) = await self.store.endpoints([id_])
        return not found.enabled, found.disabled_reason

    def _targets(self, default: Policy) -> Targets:
        sealer = AesGcmSealer(MasterKeys([bytes(32)]))
        return Targets(self.store, sealer, networks=Networks(), defaults=Defaults(policy=default))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["sqlite", "postgres and redis"])
def servers(request: pytest.FixtureRequest) -> tuple[str, str] | None:
    """A database and a Redis; None: a file."""
    if request.param == "sqlite":
        return None
    return request.getfixturevalue("postgres_url"), request.getfixturevalue("redis_url")


@pytest.fixture
async def fleet(servers: tuple[str, str] | None, tmp_path: Path) -> AsyncIterator[Fleet]:
    making = alone(tmp_path) if servers is None else together(*servers)
    async with making as found:
        yield found


@pytest.fixture
async def shared(postgres_url: str, redis_url: str) -> AsyncIterator[Fleet]:
    """Postgres and Redis."""
    async with together(postgres_url, redis_url) as found:
        yield found


@asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[Fleet]:
    clock = ManualClock()
    store = SqliteStore(folder / "hookfuse.db", clock=clock)
    await store.open()
    kept = KeptBreakers(store, clock=clock)
    await kept.load()
    found = Fleet(store, kept, clock, shared=False)
    await found.lead()
    yield found
    await found.breakers.close()
    await store.close()


@asynccontextmanager
async def together(postgres_url: str, redis_url: str) -> AsyncIterator[Fleet]:
    breakers, redis_clock = testing_redis.store_with_clock(redis_url)
    async with store_with_clock(postgres_url, deadline=30) as (store, database_clock):
        found = Fleet(store, breakers, Clocks(database_clock, redis_clock), shared=True)
        await found.lead()
        yield found
        await found.breakers.close()
    redis_clock.close()
