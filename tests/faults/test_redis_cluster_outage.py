"""A cluster of which one primary is away: its own shards are answered by the outage choice, and all others go on."""

from __future__ import annotations

import asyncio
import time

import pytest

from hookfuse import AsyncBreakers, Breakers, Outcome, Policy, Streak
from hookfuse.errors import StoreUnavailable
from hookfuse.ports import Consistency
from hookfuse.stores.redis import RedisStore
from tests.servers.cluster import KEYS, Cluster
from tests.servers.waiting import wait_until

ONE = Policy(trip=Streak(1), cool_off=60)
MANY = Policy(trip=Streak(1_000))


@pytest.mark.parametrize("has_meta", [False, True], ids=["a node", "the node with the number of shards"])
def test_primary_is_killed(cluster: Cluster, has_meta: bool) -> None:
    """Without a primary its own shards are answered by the outage choice, the others go on; and all is well again."""
    victim = next(node for node in cluster.nodes if (cluster.owner(KEYS.meta) is node) is has_meta)
    dead, live = cluster.breaker_on(victim), cluster.breaker_on(victim, elsewhere=True)
    with Breakers(RedisStore(cluster.url), policy=ONE, outage="deny") as breakers:
        hot = breakers._session
        breakers.admit(dead)
        hot.catch_up()
        victim.stop()
        wait_until(lambda: hot.healthy(dead) is None)
        lost = breakers.admit(dead)
        assert lost.degraded
        assert lost.reason == "store_unavailable"
        for _ in range(300):
            with breakers.guard(live):
                pass
            assert hot.healthy(live) is not None, "nobody is asked, and nobody is missed"
            assert hot.healthy(dead) is None
            time.sleep(0.01)
        victim.start()
        wait_until(lambda: not breakers.admit(dead).degraded)
        wait_until(lambda: hot.healthy(dead) is not None)
        assert breakers.record(breakers.admit(dead), Outcome.FAILURE) is not None


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_other_shards_are_asked(cluster: Cluster, face: str) -> None:
    """With a primary away, a strict call of another shard is answered as if nothing had happened."""
    victim = next(node for node in cluster.nodes if cluster.owner(KEYS.meta) is not node)
    dead, live = cluster.breaker_on(victim), cluster.breaker_on(victim, elsewhere=True)
    store = RedisStore(cluster.url)

    def in_threads() -> None:
        session = store.session(Consistency.STRICT)
        session.admit(dead, ONE)
        victim.stop()
        for _ in range(50):
            with pytest.raises(StoreUnavailable):
                session.admit(dead, ONE)
            assert session.admit(live, ONE).allowed
        session.close()

    async def in_tasks() -> None:
        session = store.async_session(Consistency.STRICT)
        await session.admit(dead, ONE)
        victim.stop()
        for _ in range(50):
            refused, admission = await asyncio.gather(
                session.admit(dead, ONE), session.admit(live, ONE), return_exceptions=True
            )
            assert isinstance(refused, StoreUnavailable)
            assert not isinstance(admission, BaseException)
            assert admission.allowed
        await session.close()

    in_threads() if face == "threads" else asyncio.run(in_tasks())


def test_starts_without_a_primary(cluster: Cluster) -> None:
    """A process that starts while a primary is away mirrors all other shards, and the rest once it is back."""
    victim = next(node for node in cluster.nodes if cluster.owner(KEYS.meta) is not node)
    dead, live = cluster.breaker_on(victim), cluster.breaker_on(victim, elsewhere=True)
    victim.stop()
    with Breakers(RedisStore(cluster.url), policy=ONE) as breakers:
        breakers.admit(live)
        wait_until(lambda: breakers._session.healthy(live) is not None)
        assert breakers._session.healthy(dead) is None
        victim.start()
        wait_until(lambda: breakers._session.healthy(dead) is not None)


def test_only_its_shards_are_degraded(cluster: Cluster) -> None:
    """Calls that must ask another primary are answered by it, while one is away and after it is back."""
    victim = next(node for node in cluster.nodes if cluster.owner(KEYS.meta) is not node)
    dead, live = cluster.breaker_on(victim), cluster.breaker_on(victim, elsewhere=True)
    with Breakers(RedisStore(cluster.url), policy=MANY, outage="deny", consistency="strict") as breakers:
        breakers.release(breakers.admit(dead))
        victim.stop()
        for _ in range(50):
            assert breakers.admit(dead).reason == "store_unavailable"
            admission = breakers.admit(live)
            assert not admission.degraded
            breakers.record(admission, Outcome.FAILURE)
        assert breakers.inspect(live).totals.failed == 50
        assert breakers.degraded
        victim.start()
        wait_until(lambda: not breakers.admit(dead).degraded)
        assert not breakers.degraded


def test_only_its_shards_are_degraded_for_asyncio(cluster: Cluster) -> None:
    """For asyncio it is all the same, also for calls that are made together."""
    victim = next(node for node in cluster.nodes if cluster.owner(KEYS.meta) is not node)
    dead, live = cluster.breaker_on(victim), cluster.breaker_on(victim, elsewhere=True)

    async def scenario() -> None:
        store = RedisStore(cluster.url)
        async with AsyncBreakers(store, policy=MANY, outage="deny", consistency="strict") as breakers:
            await breakers.release(await breakers.admit(dead))
            victim.stop()
            for _ in range(50):
                lost, admission = await asyncio.gather(breakers.admit(dead), breakers.admit(live))
                assert lost.reason == "store_unavailable"
                assert not admission.degraded
                await breakers.record(admission, Outcome.FAILURE)
            assert (await breakers.inspect(live)).totals.failed == 50

    asyncio.run(scenario())


def test_replaced(cluster: Cluster) -> None:
    """When a replica has taken over, nothing is degraded any more, though the lost primary never comes back."""
    victim = next(node for node in cluster.nodes if cluster.owner(KEYS.meta) is not node)
    cluster.add_replica(victim)
    dead = cluster.breaker_on(victim)
    with Breakers(RedisStore(cluster.url), policy=MANY, consistency="strict") as breakers:
        breakers.release(breakers.admit(dead))
        victim.stop()
        assert breakers.admit(dead).degraded
        assert breakers.degraded
        wait_until(lambda: not breakers.admit(dead).degraded)
        assert not breakers.degraded
