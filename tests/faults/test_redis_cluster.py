"""A cluster does for its callers what one server does, and says what is wrong with it."""

from __future__ import annotations

import asyncio
import multiprocessing
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Outcome, Override, Policy, Streak
from hookfuse.errors import StoreError
from hookfuse.stores.redis import RedisStore
from hookfuse.testing.redis import connect
from tests.servers.cluster import Cluster
from tests.servers.ports import free_port
from tests.servers.redis import Server
from tests.servers.waiting import wait_until

fork = multiprocessing.get_context("fork")

ONE = Policy(trip=Streak(1), cool_off=60)


def refused_in_threads(url: str, ready: Any) -> float:
    with Breakers(RedisStore(url), policy=ONE) as breakers:
        breakers.catch_up()
        ready.set()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                with breakers.guard("ep"):
                    time.sleep(0.001)
            except BreakerOpen:
                return time.time()
    return 0.0


def refused_in_tasks(url: str, ready: Any) -> float:
    async def scenario() -> float:
        async with AsyncBreakers(RedisStore(url), policy=ONE) as breakers:
            await breakers.catch_up()
            ready.set()
            deadline = time.monotonic() + 5
            while time.monotonic() < deadline:
                try:
                    async with breakers.guard("ep"):
                        await asyncio.sleep(0.001)
                except BreakerOpen:
                    return time.time()
        return 0.0

    return asyncio.run(scenario())


@pytest.mark.parametrize("other", [refused_in_threads, refused_in_tasks])
def test_others_learn_at_once(cluster_url: str, other: Callable[[str, Any], float]) -> None:
    """A trip in one process is a refusal in another one a moment later, though it asks nobody."""
    ready, times = fork.Event(), fork.SimpleQueue()
    process = fork.Process(target=lambda: times.put(other(cluster_url, ready)))
    process.start()
    with Breakers(RedisStore(cluster_url), policy=ONE) as breakers:
        admission = breakers.admit("ep")
        assert ready.wait(10)
        began = time.time()
        breakers.record(admission, Outcome.FAILURE)
        took = times.get() - began
    process.join()
    assert 0 < took < 0.5


def test_down_at_the_start(cluster: Cluster) -> None:
    """With no node there at the start, breakers of this process do the work; then they are shared, on both faces."""
    for node in cluster.nodes:
        node.stop()
    store = RedisStore(cluster.url)

    async def in_tasks() -> None:
        async with AsyncBreakers(store, policy=ONE) as breakers:
            assert (await breakers.admit("ep")).degraded
            for node in cluster.nodes:
                node.start()
            cluster.wait_until_whole()
            async with asyncio.timeout(10):
                while (await breakers.admit("ep")).degraded:
                    await asyncio.sleep(0.01)

    with Breakers(store, policy=ONE) as breakers:
        assert breakers.admit("ep").degraded
        asyncio.run(in_tasks())
        wait_until(lambda: not breakers.admit("ep").degraded)


def test_flushall(cluster_url: str) -> None:
    """After FLUSHALL a mirror drops what is no longer true, and generations go on growing."""
    with Breakers(RedisStore(cluster_url, deadline=2), policy=ONE) as breakers, connect(cluster_url) as client:
        breakers.force_open("forced")
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        breakers.catch_up()
        before = breakers.inspect("ep").generation
        client.flushall()
        wait_until(lambda: breakers.admit("forced").allowed and breakers.admit("ep").allowed)
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        assert breakers.inspect("ep").generation > before


def test_script_flush(cluster_url: str) -> None:
    """Scripts that are flushed while they are used are never missed by a caller."""
    stop = threading.Event()

    def flush() -> None:
        with connect(cluster_url) as client:
            while not stop.wait(0.002):
                client.script_flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    policy = Policy(trip=Streak(10_000))
    try:
        with Breakers(RedisStore(cluster_url, deadline=2), policy=policy, consistency="strict") as breakers:
            for _ in range(200):
                breakers.record(breakers.admit("ep"), Outcome.FAILURE)
            assert breakers.inspect("ep").totals.failed == 200
            assert not breakers.degraded
    finally:
        stop.set()
        flusher.join()


def test_client_handed_in(cluster_url: str) -> None:
    """A cluster's client of either kind serves as well as a URL, for both faces, also one that decodes its answers."""
    host, _, port = cluster_url.split(",")[-1].rpartition(":")
    address = (host.removeprefix("redis+cluster://"), int(port))
    with redis.RedisCluster(*address, decode_responses=True) as client, Breakers(RedisStore(client)) as breakers:
        breakers.force_open("ep")
        assert breakers.inspect("ep").override is Override.OPEN

    async def scenario() -> None:
        async with redis.asyncio.RedisCluster(*address) as tasks, AsyncBreakers(RedisStore(tasks)) as breakers:
            assert not (await breakers.admit("ep")).allowed

    asyncio.run(scenario())


def test_forked_child_starts_anew(cluster_url: str) -> None:
    """A forked child has connections of its own, and hears of what happens."""
    with Breakers(RedisStore(cluster_url), policy=ONE) as breakers:
        breakers.catch_up()
        ready, done = fork.Event(), fork.SimpleQueue()

        def child() -> None:
            breakers.catch_up()
            ready.set()
            deadline = time.monotonic() + 5
            while breakers._session.healthy("ep") is not None and time.monotonic() < deadline:
                time.sleep(0.005)
            done.put(breakers.admit("ep").allowed)

        process = fork.Process(target=child)
        process.start()
        assert ready.wait(10)
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        assert done.get() is False
        process.join()
        assert process.exitcode == 0
        breakers.catch_up()
        assert not breakers.admit("ep").allowed, "and its parent goes on hearing"


def test_a_node_under_the_wrong_url(cluster_url: str) -> None:
    """A node of a cluster under redis:// is told as such, with the URL that would do."""
    node = cluster_url.replace("redis+cluster", "redis").split(",")[0]
    with (
        Breakers(RedisStore(node)) as breakers,
        pytest.raises(StoreError, match=r"part of a cluster.*redis\+cluster://"),
    ):
        for number in range(64):
            breakers.force_open(f"ep_{number}")


def test_a_server_under_the_wrong_url() -> None:
    """A single server under redis+cluster:// is told as such."""
    port = free_port()
    server = Server("redis", "--port", str(port))
    server.start()
    try:
        breakers = Breakers(RedisStore(f"redis+cluster://127.0.0.1:{port}"))
        with pytest.raises(StoreError, match="cluster support disabled"):
            breakers.admit("ep")
        breakers.close()
    finally:
        server.remove()


def test_user_without_channels(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    """A user who may not use the bells' channels is told so once, and nothing is half done."""
    for node in cluster.nodes:
        node.command("ACL", "SETUSER", "mute", "on", ">secret", "~*", "+@all", "resetchannels")
    url = cluster.url.replace("://", "://mute:secret@")
    with Breakers(RedisStore(url), policy=ONE) as breakers:
        breakers.admit("ep")
        wait_until(lambda: "refuses to tell of changes" in caplog.text)
        with pytest.raises(StoreError, match="can't publish to the channel"):
            breakers.force_open("ep")
        assert breakers.inspect("ep").override is Override.NONE
    assert caplog.text.count("refuses to tell of changes") == 1
    assert "secret" not in caplog.text
