"""Harm to a cluster: slots that move, primaries that are replaced, hang or lose their data."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from hookfuse import AsyncBreakers, Breakers, Outcome, Override, Policy, Streak, Transition
from hookfuse.errors import StoreUnavailable
from hookfuse.ports import Consistency
from hookfuse.stores.redis import RedisStore
from hookfuse.testing.redis import connect
from tests.servers.cluster import KEYS, Cluster
from tests.servers.waiting import wait_until

ONE = Policy(trip=Streak(1), cool_off=60)


def _succeeds(action: Callable[[], object]) -> bool:
    """Whether the store is there for it."""
    try:
        action()
    except StoreUnavailable:
        return False
    return True


class Watchers:
    """One process's observers on both faces; the tasks' loop runs in a thread of its own."""

    def __init__(self, url: str) -> None:
        store = RedisStore(url, deadline=2)
        self.in_threads: list[Transition] = []
        self.in_tasks: list[Transition] = []
        self._breakers = Breakers(store, policy=ONE)
        self._breakers.subscribe(self.in_threads.append)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._tasks = AsyncBreakers(store, policy=ONE)
        self._do(self._begin())
        self.catch_up()

    async def _begin(self) -> None:
        self._tasks.subscribe(self.in_tasks.append)

    def _do(self, coroutine: Any) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(20)

    def catch_up(self) -> None:
        wait_until(lambda: _succeeds(self._breakers.catch_up))
        wait_until(lambda: _succeeds(lambda: self._do(self._tasks.catch_up())))

    def close(self) -> None:
        self._breakers.close()
        self._do(self._tasks.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def test_slot_is_moved(cluster: Cluster) -> None:
    """While a shard moves from node to node, no transition is lost to those who follow it, and none is doubled."""
    watchers = Watchers(cluster.url)
    stop, busy = threading.Event(), threading.Event()

    def work() -> None:
        with Breakers(RedisStore(cluster.url), policy=ONE) as breakers:
            while not stop.is_set():
                for order in (breakers.force_open, breakers.unforce):
                    try:
                        order("ep")
                    except StoreUnavailable:
                        continue
                    busy.set()

    worker = threading.Thread(target=work)
    worker.start()
    stream = KEYS.stream(KEYS.shard("ep"))
    home = cluster.owner(stream)
    away = next(node for node in cluster.nodes if node is not home)
    try:
        for node in (away, home, away):
            busy.clear()
            assert busy.wait(10)
            cluster.move(stream, node)
    finally:
        busy.clear()
        assert busy.wait(10)
        stop.set()
        worker.join()
    watchers.catch_up()
    watchers.close()
    with connect(cluster.url) as client:
        happened = [int(place.split(b"-")[0]) for place, _ in client.xrange(stream)]
    assert len(happened) > 10
    assert [each.generation for each in watchers.in_threads] == happened
    assert [each.generation for each in watchers.in_tasks] == happened


def test_call_while_a_slot_moves(cluster: Cluster) -> None:
    """A call that meets a half-moved slot is redirected, and counted once."""
    with Breakers(RedisStore(cluster.url), policy=Policy(trip=Streak(1_000))) as breakers:
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        stream = KEYS.stream(KEYS.shard("ep"))
        home = cluster.owner(stream)
        cluster.move(stream, next(node for node in cluster.nodes if node is not home))
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        assert not breakers.degraded
        assert breakers.inspect("ep").totals.failed == 2


def test_replica_takes_over(cluster: Cluster) -> None:
    """When a replica takes over, its shards are followed there: what was known is kept, and each change told once."""
    stream = KEYS.stream(KEYS.shard("ep"))
    victim = cluster.owner(stream)
    replica = cluster.add_replica(victim)
    told: list[Transition] = []
    with Breakers(RedisStore(cluster.url), policy=ONE) as breakers:
        breakers.subscribe(told.append)
        breakers.catch_up()
        breakers.force_open("ep")
        breakers.catch_up()
        wait_until(lambda: replica.has_all_of(victim))
        victim.stop()
        wait_until(lambda: _succeeds(lambda: breakers.inspect("ep")))
        wait_until(lambda: breakers._session.healthy("other") is not None)
        assert not breakers.admit("ep").allowed
        breakers.unforce("ep")
        wait_until(lambda: _succeeds(breakers.catch_up))
        assert breakers.admit("ep").probe
    generations = [each.generation for each in told]
    assert [each.override for each in told[:2]] == [Override.OPEN, Override.NONE]
    assert generations == sorted(set(generations))


def test_one_node_is_flushed(cluster: Cluster) -> None:
    """Data lost on one node is found, and no transition of the others is lost to those who follow them."""
    victim = cluster.nodes[0]
    gone, kept = cluster.breaker_on(victim), cluster.breaker_on(victim, elsewhere=True)
    told: list[Transition] = []
    with Breakers(RedisStore(cluster.url), policy=ONE) as breakers:
        breakers.subscribe(told.append)
        breakers.catch_up()
        breakers.force_open(gone)
        breakers.catch_up()
        with Breakers(RedisStore(cluster.url), policy=ONE) as another:
            victim.command("FLUSHALL")
            made = 0
            while breakers._session.healthy(gone) is None:
                assert made < 5_000
                another.force_open(kept)
                another.unforce(kept)
                made += 2
        breakers.catch_up()
        assert not breakers._session.refusal(kept, ONE)
    assert [each.key for each in told] == [gone, *[kept] * made]


def test_an_event_that_makes_no_sense(cluster: Cluster) -> None:
    """An entry of a stream that is not ours does not end the following, and hides no transition from observers."""
    watchers = Watchers(cluster.url)
    with connect(cluster.url) as client, Breakers(RedisStore(cluster.url), policy=ONE) as breakers:
        client.xadd(KEYS.stream(KEYS.shard("ep")), {"written": "by somebody else"}, id="1-1")
        made = [breakers.force_open("ep"), breakers.unforce("ep")]
    watchers.catch_up()
    watchers.close()
    assert watchers.in_threads == watchers.in_tasks == made


@pytest.mark.parametrize("face", ["threads", "tasks"])
def test_report_without_an_answer(cluster: Cluster, face: str) -> None:
    """A report to a node that hangs fails within the deadline, and is not sent again: maybe lost, never doubled."""
    many = Policy(trip=Streak(1_000))
    victim = cluster.owner(KEYS.stream(KEYS.shard("ep")))
    store = RedisStore(cluster.url)

    async def in_tasks() -> None:
        session = store.async_session(Consistency.STRICT)
        admission = await session.admit("ep", many)
        victim.signal(signal.SIGSTOP)
        with pytest.raises(StoreUnavailable):
            await session.record(admission, Outcome.FAILURE, None, None)
        await session.close()

    session = store.session(Consistency.STRICT)
    admission = session.admit("ep", many)
    began = time.monotonic()
    try:
        if face == "tasks":
            asyncio.run(in_tasks())
        else:
            victim.signal(signal.SIGSTOP)
            with pytest.raises(StoreUnavailable):
                session.record(admission, Outcome.FAILURE, None, None)
        assert time.monotonic() - began < 1
    finally:
        victim.signal(signal.SIGCONT)
    wait_until(lambda: _succeeds(lambda: session.inspect("ep", many)))
    assert session.inspect("ep", many).totals.failed <= 1
    session.close()
