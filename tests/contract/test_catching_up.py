"""`catch_up` on every store and both faces: afterwards this process knows what others did before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Policy, Streak, Transition
from hookfuse.ports import BreakerStore
from hookfuse.stores.memory import MemoryStore
from hookfuse.stores.redis import RedisStore

ONE = Policy(trip=Streak(1), cool_off=30)


@pytest.fixture(params=["memory", "redis"])
def stores(request: pytest.FixtureRequest) -> Callable[[], BreakerStore]:
    """Gives each process its store: of memory there is only one, of Redis each has its own mirror."""
    if request.param == "memory":
        shared = MemoryStore()
        return lambda: shared
    url = request.getfixturevalue("redis_url")
    return lambda: RedisStore(url)


def test_threads(stores: Callable[[], BreakerStore]) -> None:
    """Observers have been told, own successes have arrived, and an open key is refused without asking."""
    heard: list[Transition] = []
    with Breakers(stores(), policy=ONE) as here, Breakers(stores(), policy=ONE) as there:
        here.subscribe(heard.append)
        here.catch_up()
        with here.guard("well"):
            pass
        made = there.force_open("ep", reason="maintenance")
        here.catch_up()
        assert heard == [made]
        assert there.inspect("well").totals.ok == 1
        with pytest.raises(BreakerOpen, match="maintenance"), here.guard("ep"):
            pytest.fail("the block must not run")


def test_tasks(stores: Callable[[], BreakerStore]) -> None:
    """The same for asyncio."""

    async def scenario() -> None:
        heard: list[Transition] = []
        async with AsyncBreakers(stores(), policy=ONE) as here, AsyncBreakers(stores(), policy=ONE) as there:
            here.subscribe(heard.append)
            await here.catch_up()
            async with here.guard("well"):
                pass
            made = await there.force_open("ep", reason="maintenance")
            await here.catch_up()
            assert heard == [made]
            assert (await there.inspect("well")).totals.ok == 1
            with pytest.raises(BreakerOpen, match="maintenance"):
                async with here.guard("ep"):
                    pytest.fail("the block must not run")

    asyncio.run(scenario())
