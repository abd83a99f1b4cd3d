"""A fleet whose Redis is cut off from half of it, or replaced by a replica that knows less."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
import redis

from hookfuse import Breakers, Outcome, Policy, State, Streak, Transition
from hookfuse.stores.redis import RedisStore
from tests.servers.proxy import Proxy
from tests.servers.redis import Server
from tests.servers.waiting import wait_until

TWO = Policy(trip=Streak(2), cool_off=60)
BRIEF = Policy(trip=Streak(2), cool_off=1)
LONG_OUTAGE = 3.5
"""Seconds after which a process asks a store that is away as seldom as it ever does."""


def fail(breakers: Breakers, key: str) -> Transition | None:
    breakers.record(breakers.admit(key), Outcome.FAILURE)
    return breakers.record(breakers.admit(key), Outcome.FAILURE)


class Fleet(NamedTuple):
    near: list[Breakers]
    far: list[Breakers]
    """Those who reach Redis by way of the proxy."""

    @property
    def all(self) -> list[Breakers]:
        return self.near + self.far

    def degraded(self) -> list[bool]:
        """Whether each of the far ones is on its own; everybody asks."""
        return [worker.admit("well").degraded for worker in self.far]

    def reasons(self, key: str) -> set[str | None]:
        """What all of them say why they refuse a key; None: somebody does not."""
        return {worker.admit(key).reason for worker in self.all}


@pytest.fixture
def fleet(server: Server, url: str) -> Iterator[Fleet]:
    with ExitStack() as closing:
        stores = [RedisStore(each) for each in (server.url, server.url, url, url)]
        workers = [closing.enter_context(Breakers(store, policy=TWO)) for store in stores]
        for worker in workers:
            worker._session.catch_up()
        yield Fleet(workers[:2], workers[2:])


@pytest.mark.parametrize("fault", ["down", "timeout", "reset"])
def test_half_of_the_workers_cut_off(fault: str, proxy: Proxy, fleet: Fleet) -> None:
    """Within a second after healing all workers say what Redis says, and nothing that anyone learned is forgotten."""
    one, alone = fleet.near[0], fleet.far[0]
    getattr(proxy, fault)()
    cut_off = time.monotonic()
    fail(one, "dead")
    one.force_open("forced", reason="maintenance")
    for worker in (one, alone):
        fail(worker, "dead_for_both")
    wait_until(lambda: all(fleet.degraded()) and time.monotonic() - cut_off > LONG_OUTAGE)

    proxy.heal()
    healed = time.monotonic()
    wait_until(lambda: not any(fleet.degraded()))
    for key, reason in (("dead", "open"), ("forced", "forced_open"), ("dead_for_both", "open")):
        wait_until(lambda key=key, reason=reason: fleet.reasons(key) == {reason})  # type: ignore[misc]
    assert time.monotonic() - healed < 1.0
    counted = fleet.far[1].inspect("dead_for_both").totals.failed
    assert counted == 2 or (counted == 3 and fault == "timeout"), "one that was held back may arrive late, but once"


def test_learned_alone(server: Server, proxy: Proxy, url: str) -> None:
    """What a cut-off worker has opened it refuses until its probe is due there; then Redis decides for all."""
    with Breakers(RedisStore(server.url), policy=BRIEF) as near, Breakers(RedisStore(url), policy=BRIEF) as far:
        far._session.catch_up()
        proxy.down()
        opened = fail(far, "ep")
        assert opened is not None
        proxy.heal()
        wait_until(lambda: not far.admit("well").degraded)
        refused = far.admit("ep")
        assert (refused.allowed, refused.degraded) == (False, True)
        assert near.admit("ep").allowed
        wait_until(lambda: far.admit("ep").allowed)
        assert time.time() - opened.at >= 0.9
        assert not far.admit("ep").degraded


@pytest.fixture
def replica(server: Server) -> Iterator[tuple[Server, Proxy]]:
    """A replica of `server`, and its way there."""
    made = Server("redis")
    made.start()
    with redis.Redis.from_url(server.url) as primary:
        primary.config_set("repl-diskless-sync-delay", 0)
    with Proxy(server.path) as way, redis.Redis.from_url(made.url) as client:
        client.replicaof("127.0.0.1", str(way.port))
        wait_until(lambda: client.info("replication")["master_link_status"] == "up", 20)
        yield made, way
    made.remove()


@pytest.mark.parametrize("first", ["the workers", "somebody else"])
def test_lagging_replica_promoted(
    first: str, server: Server, replica: tuple[Server, Proxy], proxy: Proxy, url: str
) -> None:
    """When a replica that missed transitions takes over, nobody holds on to them, and generations go on growing."""
    promoted, its_way = replica
    store = RedisStore(url, shards=1)
    seen: list[Transition] = []
    with Breakers(store, policy=TWO) as one, Breakers(store, policy=TWO) as other:
        other.subscribe(seen.append)
        other._session.catch_up()
        fail(one, "kept")
        with redis.Redis.from_url(server.url) as client:
            assert client.wait(1, 5_000) == 1
        its_way.timeout()
        fail(one, "lost")
        one.force_open("lost_order")
        other._session.catch_up()
        before = {key: other.inspect(key).generation for key in ("kept", "lost", "lost_order")}

        server.stop()
        with redis.Redis.from_url(promoted.url) as client:
            client.replicaof("NO", "ONE")
        if first == "somebody else":
            with Breakers(RedisStore(promoted.url, shards=1), policy=TWO) as early:
                fail(early, "new")
        proxy.lead_to(promoted.path)
        for worker in (one, other):
            wait_until(lambda worker=worker: not worker.admit("well").degraded)  # type: ignore[misc]
        fail(one, "next")
        for worker in (one, other):
            worker._session.catch_up()
            assert not worker.admit("kept").allowed
            assert not worker.admit("next").allowed
            assert worker.admit("lost").allowed, "Redis does not know of it any more"
            assert worker.admit("lost_order").allowed
            assert worker.inspect("kept").generation == before["kept"]
            assert worker.inspect("lost").state is State.CLOSED
            assert worker.inspect("next").generation > max(before.values())
    generations = [transition.generation for transition in seen]
    assert generations == sorted(set(generations)), "each was told once, in order"
    known = {"kept", "lost", "lost_order", "next"} | ({"new"} if first == "somebody else" else set())
    assert {transition.key for transition in seen} == known
