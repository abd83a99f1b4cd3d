"""Who hears of a failure, and how long it takes, when something is late: Redis, this process, or what is under way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Outcome, Policy, State, Streak
from hookfuse.errors import StoreError
from hookfuse.stores.redis import RedisStore
from hookfuse.stores.redis.deadline import Deadline
from tests.servers.proxy import Proxy
from tests.servers.redis import Server

ONE = Policy(trip=Streak(1), cool_off=60)
SHORT = Policy(trip=Streak(1), cool_off=1)
MANY = 200
KEY = "hookfuse:v1:{0}:b:ep"
"""Of the breaker "ep" where there is one shard."""


async def until(true: Callable[[], Any], seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.002)


def test_a_busy_loop_is_no_outage(proxy: Proxy, url: str, server: Server) -> None:
    """A loop that was busy for three deadlines while the answer came does not take Redis for dead."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(url, shards=1), policy=ONE) as breakers:
            admission = await breakers.admit("ep")
            proxy.latency(0.05)
            recording = asyncio.create_task(breakers.record(admission, Outcome.FAILURE))
            with redis.Redis.from_url(server.url) as direct:
                await until(lambda: direct.exists(KEY))
            time.sleep(0.3)  # noqa: ASYNC251 - the fault: somebody's code holds up the loop
            transition = await recording
            proxy.heal()
            assert not breakers.degraded
            assert transition is not None
            assert (await breakers.inspect("ep")).generation == transition.generation, "it is the store's own"

    asyncio.run(scenario())


@pytest.mark.parametrize("where", ["redis_url", "cluster_url"])
def test_closed_by_a_busy_loop(request: pytest.FixtureRequest, where: str) -> None:
    """Breakers whose loop is too busy to see their connections closed within the deadline are closed all the same."""
    url = request.getfixturevalue(where)

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        breakers = AsyncBreakers(RedisStore(url, shards=1, deadline=0.2), policy=ONE, consistency="strict")
        admission = await breakers.admit("ep")
        await breakers.record(admission, Outcome.OK)
        assert not breakers.degraded
        busy: asyncio.Handle | None = None

        def keep_busy() -> None:
            nonlocal busy
            time.sleep(0.25)  # the fault
            # Last in each turn of the loop, so between what is begun and what comes of it.
            busy = loop.call_later(0, keep_busy)

        keep_busy()
        await breakers.close()
        assert busy is not None
        busy.cancel()

    asyncio.run(scenario())


def test_deadline() -> None:
    """A loop that is free waits for its deadline, and one that is always busy not much longer."""

    async def wait(busy: float) -> float:
        async def keep_busy() -> None:
            while True:
                time.sleep(busy)  # noqa: ASYNC251 - the fault
                await asyncio.sleep(0)

        others = asyncio.create_task(keep_busy()) if busy else None
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with Deadline(0.1):
                await asyncio.Event().wait()
        if others is not None:
            others.cancel()
        return time.monotonic() - began

    assert 0.1 <= asyncio.run(wait(0)) < 0.2
    assert asyncio.run(wait(0.06)) < 1.5


def test_deadline_lets_cancels_through() -> None:
    """A cancel from outside stays a cancel."""

    async def scenario() -> None:
        async def wait() -> None:
            async with Deadline(5):
                await asyncio.Event().wait()

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scenario())


def test_opened_here_is_refused_here(proxy: Proxy, url: str) -> None:
    """A failure that could not be told opens the key in this process, also for guards, until its probe is due here."""
    with Breakers(RedisStore(url), policy=SHORT) as breakers:
        breakers._session.catch_up()
        admission = breakers.admit("ep")
        proxy.timeout()
        breakers.record(admission, Outcome.FAILURE)
        began = time.monotonic()
        proxy.heal()
        refused = 0
        while time.monotonic() - began < 0.9:
            with pytest.raises(BreakerOpen), breakers.guard("ep"):
                pytest.fail("the block must not run")
            with breakers.guard("well"):
                refused += 1
        assert refused > 0
        while breakers.degraded or breakers._session.healthy("ep") is None:
            assert time.monotonic() - began < 5
            breakers.release(breakers.admit("ep"))
    with Breakers(RedisStore(url, deadline=2)) as others:
        assert others.inspect("ep").state is State.CLOSED, "the store has not heard of it, and decides again"


def test_opened_here_is_refused_here_for_asyncio(proxy: Proxy, url: str) -> None:
    """For asyncio it is all the same."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(url), policy=ONE) as breakers:
            await breakers._session.catch_up()
            admission = await breakers.admit("ep")
            proxy.timeout()
            await breakers.record(admission, Outcome.FAILURE)
            proxy.heal()
            async with asyncio.timeout(5):
                while (await breakers.admit("well")).degraded:
                    await asyncio.sleep(0.01)
            await breakers._session.catch_up()
            with pytest.raises(BreakerOpen):
                async with breakers.guard("ep"):
                    pytest.fail("the block must not run")

    asyncio.run(scenario())


def test_done_but_not_heard(proxy: Proxy, url: str, server: Server) -> None:
    """A failure whose answer is lost counts once: it is not sent again."""
    with Breakers(RedisStore(url), policy=Policy(trip=Streak(10))) as breakers:
        breakers.record(breakers.admit("other"), Outcome.FAILURE)
        admission = breakers.admit("ep")
        proxy.mute()
        breakers.record(admission, Outcome.FAILURE)
        assert breakers.degraded
        proxy.heal()
    with Breakers(RedisStore(server.url)) as others:
        assert others.inspect("ep").totals.failed == 1


def test_failure_overtakes_the_flush(proxy: Proxy, url: str) -> None:
    """A failure waits for the part of a flush with its key in it, not for the whole; its successes go first."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(url, deadline=2), policy=Policy(trip=Streak(9))) as breakers:
            session = breakers._session._session  # type: ignore[attr-defined]
            await session.catch_up()
            for number in range(MANY):
                async with breakers.guard(f"ep_{number}"):
                    pass
            admissions = [await breakers.admit(f"ep_{number}") for number in (0, MANY - 1)]
            proxy.latency(0.05)
            flushing = asyncio.create_task(session.flush())
            await until(lambda: session._flights._flight)
            await asyncio.gather(*(breakers.record(admission, Outcome.FAILURE) for admission in admissions))
            assert not flushing.done()
            await flushing
            for admission in admissions:
                seen = await breakers.inspect(admission.key)
                assert (seen.totals.ok, seen.streak) == (1, 1)

    asyncio.run(scenario())


def test_failure_overtakes_the_flush_for_threads(proxy: Proxy, url: str) -> None:
    """For threads it is all the same."""
    with Breakers(RedisStore(url, deadline=2), policy=Policy(trip=Streak(9))) as breakers:
        session = breakers._session._session  # type: ignore[attr-defined]
        session.catch_up()
        proxy.latency(0.05)
        admission = breakers.admit("ep_0")
        with session._flights._taking_off:
            for number in range(MANY):
                with breakers.guard(f"ep_{number}"):
                    pass
        flushing = threading.Thread(target=session.flush)
        flushing.start()
        breakers.record(admission, Outcome.FAILURE)
        assert flushing.is_alive()
        flushing.join()
        seen = breakers.inspect("ep_0")
        assert (seen.totals.ok, seen.streak) == (1, 1)


@pytest.mark.parametrize("consistency", ["mirror", "strict"])
def test_an_answer_that_makes_no_sense(url: str, consistency: Any) -> None:
    """Nobody waits for ever when Redis answers something that nobody expects."""
    store = RedisStore(url, _includes=(("batch", "return 1"),))

    async def scenario() -> None:
        async with AsyncBreakers(store, consistency=consistency) as breakers:
            async with asyncio.timeout(5):
                with pytest.raises(StoreError, match="cannot be read"):
                    await breakers.admit("ep")

    asyncio.run(scenario())


GARBAGE = {"written": "by somebody else"}


def test_an_event_that_makes_no_sense(url: str, server: Server) -> None:
    """An entry of a stream that is not ours does not end the following: later trips are heard of."""
    with (
        Breakers(RedisStore(url, shards=1), policy=ONE) as breakers,
        Breakers(RedisStore(server.url, shards=1), policy=ONE) as others,
        redis.Redis.from_url(server.url) as client,
    ):
        breakers._session.catch_up()
        client.xadd("hookfuse:v1:{0}:stream", GARBAGE)
        others.record(others.admit("ep"), Outcome.FAILURE)
        breakers._session.catch_up()
        assert breakers._session.refusal("ep", ONE) is not None


def test_an_event_that_makes_no_sense_for_asyncio(url: str, server: Server) -> None:
    """For asyncio it is all the same."""

    async def scenario() -> None:
        async with AsyncBreakers(RedisStore(url, shards=1), policy=ONE) as breakers:
            await breakers._session.catch_up()
            with redis.Redis.from_url(server.url) as client:
                client.xadd("hookfuse:v1:{0}:stream", GARBAGE)
            with Breakers(RedisStore(server.url, shards=1), policy=ONE) as others:
                others.record(others.admit("ep"), Outcome.FAILURE)
            await breakers._session.catch_up()
            assert breakers._session.refusal("ep", ONE) is not None

    asyncio.run(scenario())
