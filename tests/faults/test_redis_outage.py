"""What callers see when Redis is away, slow, flushed, full, read-only or holds something else."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable

import pytest
import redis

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Outcome, Override, Policy, State, Streak, profiles
from hookfuse.errors import InvalidInput, StoreError, StoreUnavailable
from hookfuse.stores.redis import RedisStore
from tests.servers.redis import Server

TWO = Policy(trip=Streak(2), cool_off=30)


def fail(breakers: Breakers, key: str = "ep", times: int = 2) -> None:
    for _ in range(times):
        breakers.record(breakers.admit(key), Outcome.FAILURE)


def wait_until(true: Callable[[], bool], seconds: float = 5.0) -> float:
    """How long it took."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() - began < seconds, "it did not become true in time"
        time.sleep(0.005)
    return time.monotonic() - began


def test_down_at_the_start(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """With Redis down at the start, breakers of this process do the work and say so; then they are shared again."""
    server.stop()
    with Breakers(RedisStore(server.url), policy=TWO) as breakers:
        admission = breakers.admit("ep")
        assert admission.allowed
        assert admission.degraded
        assert breakers.degraded
        breakers.record(admission, Outcome.OK)
        fail(breakers, "dead")
        assert not breakers.admit("dead").allowed
        assert [record.levelno for record in caplog.records] == [logging.WARNING], "it is said once"
        server.start()
        assert wait_until(lambda: not breakers.admit("other").degraded) < 5
        assert not breakers.degraded
        assert not breakers.admit("dead").allowed, "what was learned here is not forgotten"
        assert "is back" in caplog.records[-1].message


def test_looking_notices(server: Server) -> None:
    """A process that only looks at breakers notices that Redis is away, and that it is back."""
    with Breakers(RedisStore(server.url), policy=TWO) as breakers:
        breakers.inspect("ep")
        server.stop()
        with pytest.raises(StoreUnavailable):
            breakers.inspect("ep")
        assert breakers.degraded
        assert breakers.cut_off == ("ep",)
        server.start()

        def is_back() -> bool:
            breakers.inspect(*breakers.cut_off[:1] or ("ep",))
            return not breakers.degraded

        assert wait_until(is_back) < 5


def test_dies_while_open(server: Server) -> None:
    """What this process knew to be open or forced stays refused when Redis dies."""
    with Breakers(RedisStore(server.url), policy=TWO) as breakers:
        fail(breakers, "open")
        breakers.force_open("forced", reason="maintenance")
        breakers.disable("off")
        breakers.catch_up()
        server.stop()
        wait_until(lambda: breakers.admit("well").degraded)
        for key, reason in (("open", "open"), ("forced", "forced_open"), ("off", "disabled")):
            refused = breakers.admit(key)
            assert not refused.allowed
            assert refused.degraded
            assert refused.reason == reason
        with pytest.raises(BreakerOpen, match="maintenance"), breakers.guard("forced"):
            pytest.fail("the block must not run")


def test_one_probe_in_an_outage(server: Server) -> None:
    """A key that was open gets one probe per process during an outage, not a flood."""
    policy = Policy(trip=Streak(1), cool_off=0.3)
    with Breakers(RedisStore(server.url), policy=policy) as breakers:
        fail(breakers, times=1)
        breakers.catch_up()
        server.stop()
        wait_until(lambda: breakers.admit("well").degraded)
        probes: list[bool] = []
        wait_until(lambda: probes.append(breakers.admit("ep").allowed) or probes[-1])  # type: ignore[func-returns-value]
        assert not any(breakers.admit("ep").allowed for _ in range(20))


def test_sampled_policies_trip_in_an_outage(server: Server) -> None:
    """While nobody can sample, every outcome is judged here by the rules of the sampled policy; then no more."""
    policy = profiles.sampled(failure_percent=50, min_calls=10, cool_off=0.2)
    with Breakers(RedisStore(server.url), policy=policy) as breakers:
        fail(breakers, times=20)
        assert breakers.inspect("ep").state is State.CLOSED, "a sample decides"
        server.stop()
        wait_until(lambda: breakers.admit("well").degraded)
        fail(breakers, times=9)
        assert breakers.admit("ep").allowed, "fewer calls than the least that decide"
        fail(breakers, times=1)
        refused = breakers.admit("ep")
        assert (refused.allowed, refused.degraded, refused.reason) == (False, True, "open")
        server.start()
        wait_until(lambda: not breakers.admit("ep").degraded)
        fail(breakers, times=20)
        assert breakers.inspect("ep").state is State.CLOSED


@pytest.mark.parametrize("consistency", ["mirror", "strict"])
def test_every_call_within_the_deadline(server: Server, consistency: str) -> None:
    """A Redis that accepts and never answers costs one deadline now and then, not one per call."""
    with Breakers(RedisStore(server.url), policy=TWO, consistency=consistency) as breakers:  # type: ignore[arg-type]
        breakers.admit("ep")
        server.signal(signal.SIGSTOP)
        try:
            wait_until(lambda: breakers.admit("ep").degraded)
            took = []
            for _ in range(300):
                began = time.monotonic()
                breakers.record(breakers.admit("ep"), Outcome.OK)
                took.append(time.monotonic() - began)
        finally:
            server.signal(signal.SIGCONT)
        assert max(took) < 0.35
        assert sorted(took)[-15] < 0.02, "hardly any call waits"
        assert wait_until(lambda: not breakers.admit("ep").degraded) < 5


def test_allow_and_deny(server: Server) -> None:
    """The outage can be told to let every call pass, or none."""
    server.stop()
    with Breakers(RedisStore(server.url), policy=TWO, outage="allow") as breakers:
        fail(breakers, times=5)
        admission = breakers.admit("ep")
        assert admission.allowed
        assert admission.degraded
    with Breakers(RedisStore(server.url), policy=TWO, outage="deny") as breakers:
        admission = breakers.admit("ep")
        assert not admission.allowed
        assert admission.degraded
        assert admission.reason == "store_unavailable"
        assert admission.retry_after is not None
        with pytest.raises(BreakerOpen, match="the breaker store cannot be reached"), breakers.guard("ep"):
            pytest.fail("the block must not run")


def test_asyncio(server: Server) -> None:
    """For asyncio it is all the same: degraded, local, and whole again without a restart."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(server.url), policy=TWO) as breakers:
            await breakers.force_open("forced")
            await breakers.catch_up()
            server.stop()
            async with asyncio.timeout(5):
                while not (await breakers.admit("well")).degraded:
                    await asyncio.sleep(0.005)
            assert not (await breakers.admit("forced")).allowed
            for _ in range(2):
                with pytest.raises(ConnectionError):
                    async with breakers.guard("dead"):
                        raise ConnectionError("down")
            assert not (await breakers.admit("dead")).allowed
            server.start()
            async with asyncio.timeout(5):
                while (await breakers.admit("well")).degraded:
                    await asyncio.sleep(0.005)
            assert not (await breakers.admit("dead")).allowed

    asyncio.run(scenario())


def test_flushall(server: Server) -> None:
    """After FLUSHALL a mirror drops what is no longer true, and breakers are relearned within their threshold."""
    with Breakers(RedisStore(server.url), policy=TWO) as breakers, redis.Redis.from_url(server.url) as client:
        breakers.force_open("forced")
        fail(breakers)
        breakers.catch_up()
        before = breakers.inspect("ep").generation
        client.flushall()
        assert wait_until(lambda: breakers.admit("forced").allowed) < 5
        fail(breakers)
        assert not breakers.admit("ep").allowed
        assert breakers.inspect("ep").generation > before, "generations never go backwards"


def test_script_flush(server: Server) -> None:
    """Scripts that are flushed every few milliseconds are never missed by a caller."""
    stop = threading.Event()

    def flush() -> None:
        with redis.Redis.from_url(server.url) as client:
            while not stop.wait(0.001):
                client.script_flush()

    flusher = threading.Thread(target=flush)
    flusher.start()
    try:
        with Breakers(RedisStore(server.url), policy=Policy(trip=Streak(10_000)), consistency="strict") as breakers:
            fail(breakers, times=300)
            assert breakers.inspect("ep").totals.failed == 300
            assert not breakers.degraded
    finally:
        stop.set()
        flusher.join()


@pytest.mark.parametrize("part", ["b:ep", "seq", "stream", "index"])
def test_something_else_on_our_key(server: Server, part: str) -> None:
    """Another type on one of our keys surfaces as no error, charges nobody, and leaves nothing half applied."""
    with Breakers(RedisStore(server.url, shards=1), policy=TWO) as breakers, redis.Redis.from_url(server.url) as client:
        breakers.admit("ep")
        client.set(f"hookfuse:v1:{{0}}:{part}", "x") if part != "seq" else client.lpush("hookfuse:v1:{0}:seq", "x")
        fail(breakers)
        assert breakers.admit("well").allowed
        if part != "b:ep":
            assert client.hget("hookfuse:v1:{0}:b:ep", "state") != b"open", "nothing is half applied"


def test_out_of_memory(server: Server) -> None:
    """A full Redis degrades; it is used again when it has room."""
    with Breakers(RedisStore(server.url), policy=TWO) as breakers, redis.Redis.from_url(server.url) as client:
        fail(breakers, times=1)
        client.config_set("maxmemory", "1")
        wait_until(lambda: breakers.record(breakers.admit("ep"), Outcome.FAILURE) is None and breakers.degraded)
        client.config_set("maxmemory", "0")
        assert wait_until(lambda: not breakers.admit("other").degraded) < 5


def test_read_only_replica(server: Server) -> None:
    """A read-only replica degrades instead of failing calls."""
    with redis.Redis.from_url(server.url) as client, Breakers(RedisStore(server.url), policy=TWO) as breakers:
        breakers.admit("ep")
        client.replicaof("127.0.0.1", "1")
        client.config_set("replica-serve-stale-data", "yes")
        fail(breakers, times=2)
        assert breakers.degraded
        assert not breakers.admit("ep").allowed, "this process has learned it by itself"


def test_wrong_password() -> None:
    """A wrong password is one clear error at the first call."""
    server = Server("redis", "--requirepass", "secret")
    server.start()
    try:
        with pytest.raises(StoreError, match="refused the user or password") as caught:
            Breakers(RedisStore(server.url), policy=TWO).admit("ep")
        assert "secret" not in str(caught.value)
    finally:
        server.remove()


def test_another_number_of_shards(server: Server) -> None:
    """A process with another number of shards refuses to start, and says what to do."""
    with Breakers(RedisStore(server.url, shards=8), policy=TWO) as breakers:
        breakers.admit("ep")
    with pytest.raises(StoreError, match="Use shards=8, or another prefix"):
        Breakers(RedisStore(server.url, shards=16), policy=TWO).admit("ep")


@pytest.mark.parametrize(
    ("target", "settings", "words"),
    [
        ("localhost:6379", {}, "begins with redis://"),
        (3, {}, "a URL such as"),
        ("redis://x", {"shards": 0}, "shards must be a whole number"),
        ("redis://x", {"deadline": -1}, "deadline must be a duration"),
        ("redis://x", {"prefix": "a{b}"}, "prefix must be a word"),
    ],
)
def test_misuse(target: object, settings: dict[str, object], words: str) -> None:
    """Wrong settings are refused at once, with what would do."""
    with pytest.raises(InvalidInput, match=words):
        RedisStore(target, **settings)  # type: ignore[arg-type]


def test_operators_hear_of_it(server: Server) -> None:
    """An operator's order that cannot reach the store raises; it is never done for this process alone."""
    server.stop()
    with Breakers(RedisStore(server.url), policy=TWO) as breakers, pytest.raises(StoreError, match="not available"):
        breakers.force_open("ep")


def test_catching_up_with_nobody(server: Server) -> None:
    """Who waits to have heard of everything is told when that cannot be."""
    with Breakers(RedisStore(server.url), policy=TWO) as breakers:
        breakers.catch_up()
        server.stop()
        with pytest.raises(StoreUnavailable):
            breakers.catch_up()

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(server.url), policy=TWO) as tasks:
            with pytest.raises(StoreUnavailable):
                await tasks.catch_up()

    asyncio.run(scenario())


def test_client_handed_in(server: Server) -> None:
    """A client serves as well as a URL, for both faces, also one that decodes its answers."""
    client = redis.Redis.from_url(server.url, decode_responses=True)
    store = RedisStore(client)
    with Breakers(store, policy=TWO) as breakers:
        breakers.force_open("ep")
        assert breakers.inspect("ep").override is Override.OPEN

    async def scenario() -> None:
        async with AsyncBreakers(store, policy=TWO) as tasks:
            assert (await tasks.inspect("ep")).state is State.CLOSED
            assert not (await tasks.admit("ep")).allowed

    asyncio.run(scenario())
    client.close()
