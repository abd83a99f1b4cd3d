"""Redis loses its data: within one sample breakers are what they were, as far as anyone can know."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
import redis

from hookfuse import Outcome, Policy, Rate, State, Streak
from hookfuse.core.state import Override
from hookfuse.errors import StoreError
from hookfuse.testing.redis import ServerClock
from tests.sampling.conftest import FIRST, Clocks, Fleet

pytestmark = pytest.mark.anyio

SAMPLED = Policy(
    trip=Rate(0.5, min_calls=10), window=60, cool_off=600, evaluate="sampled", sample_every=30, disable_after=5
)
INLINE = Policy(trip=Streak(3), window=60, cool_off=600)


def redis_clock(fleet: Fleet) -> ServerClock:
    assert isinstance(fleet.clock, Clocks)
    (clock,) = [each for each in fleet.clock.clocks if isinstance(each, ServerClock)]
    return clock


@pytest.fixture
def client(redis_url: str) -> redis.Redis:
    return redis.Redis.from_url(redis_url)


def flush(fleet: Fleet, client: redis.Redis) -> None:
    client.flushall()
    # The time of the test is a key too.
    redis_clock(fleet).advance(0)


async def test_everything_comes_back(shared: Fleet, client: redis.Redis) -> None:
    """After FLUSHALL one sample puts back what was forced and disabled, and opens again what the tallies prove."""
    forced = await shared.endpoint("ep_forced", INLINE)
    disabled = await shared.endpoint("ep_disabled", dataclasses.replace(INLINE, reenable_after=3600.0))
    sampled = await shared.endpoint("ep_sampled", SAMPLED)
    inline = await shared.endpoint("ep_inline", INLINE)
    healthy = await shared.endpoint("ep_healthy", INLINE)
    await shared.breakers.force_open(forced, reason="maintenance", actor="anna")
    await shared.breakers.disable(disabled, reason="fraud")
    await shared.attempts(failed=12, id_="ep_sampled")
    await shared.attempts(failed=3, id_="ep_inline")
    await shared.attempts(ok=10, failed=1, id_="ep_healthy")
    for _ in range(3):
        await shared.breakers.record(await shared.breakers.admit(inline), Outcome.FAILURE)
    await shared.sample()
    keys = (forced, disabled, sampled, inline, healthy)
    before = {key: await shared.state(key) for key in keys}
    assert [seen.state for seen in before.values()] == [
        State.CLOSED,
        State.DISABLED,
        State.OPEN,
        State.OPEN,
        State.CLOSED,
    ]
    flush(shared, client)
    assert (await shared.sampler.sample(FIRST)).rebuilt
    after = {key: await shared.state(key) for key in keys}
    assert [seen.state for seen in after.values()] == [seen.state for seen in before.values()]
    assert (after[forced].override, after[forced].reason) == (Override.OPEN, "maintenance")
    assert (after[disabled].reason, after[disabled].probe_at) == ("fraud", shared.clock.now() + 3600)
    assert (after[healthy].generation, after[healthy].totals.failed) == (0, 0), "nobody is charged"
    for key in (forced, disabled, sampled, inline):
        assert after[key].generation > before[key].generation
    assert not (await shared.sample()).rebuilt


async def test_what_was_taken_away_stays_away(shared: Fleet, client: redis.Redis) -> None:
    """An override that was ended, by hand or by its time, is not put back."""
    keys = [await shared.endpoint(f"ep_{number}", INLINE) for number in range(2)]
    await shared.breakers.force_open(keys[0])
    await shared.breakers.force_open(keys[1], until=shared.clock.now() + 60)
    await shared.sample()
    assert len(await shared.store.standings()) == 2
    await shared.breakers.unforce(keys[0])
    await shared.sample()
    assert [each.key for each in await shared.store.standings()] == [keys[1]]
    shared.clock.advance(61)
    flush(shared, client)
    await shared.sampler.sample(FIRST)
    assert [(await shared.state(key)).override for key in keys] == [Override.NONE, Override.NONE]
    await shared.sample()
    assert await shared.store.standings() == []


async def test_an_override_ended_while_nobody_led(shared: Fleet) -> None:
    """A new leader finds that an override is no longer there, though the breaker itself was forgotten since."""
    key = await shared.endpoint("ep_1", INLINE)
    await shared.breakers.force_closed(key)
    await shared.sample()
    await shared.breakers.unforce(key)
    shared.clock.advance(7200)
    assert (await shared.state(key)).generation == 0
    shared.sampler = shared.another()
    await shared.sample(await shared.lead("next"))
    assert await shared.store.standings() == []
    assert (await shared.state(key)).override is Override.NONE


async def test_a_server_that_never_heard_of_it(shared: Fleet, client: redis.Redis) -> None:
    """An override that a server which took over has missed is put back by the next leader."""
    key = await shared.endpoint("ep_1", INLINE)
    await shared.breakers.force_open(key, reason="maintenance")
    await shared.sample()
    for name in client.scan_iter("test:v1:{*"):
        if not name.endswith(b":now"):
            client.delete(name)
    shared.sampler = shared.another()
    await shared.sampler.sample(await shared.lead("next"))
    assert (await shared.state(key)).reason == "maintenance"


async def test_generations_never_go_back(shared: Fleet, client: redis.Redis) -> None:
    """An empty server whose clock is an hour behind goes on above the newest generation that the database saw."""
    key = await shared.endpoint("ep_1", INLINE)
    made = await shared.breakers.force_open(key)
    await shared.sample()
    redis_clock(shared).advance(-3600)
    flush(shared, client)
    await shared.sampler.sample(FIRST)
    assert made is not None
    assert (await shared.state(key)).generation > made.generation
    again = await shared.breakers.unforce(key)
    assert again is not None
    assert again.generation > made.generation


async def test_lost_again_while_it_is_put_back(shared: Fleet, client: redis.Redis) -> None:
    """Data that is lost while the leader looks is not taken for overrides that someone ended."""
    key = await shared.endpoint("ep_1", INLINE)
    await shared.breakers.force_open(key, reason="maintenance")
    await shared.sample()
    for _ in range(3):
        flush(shared, client)
        await shared.sampler.sample(FIRST)
        assert (await shared.state(key)).override is Override.OPEN
    assert [each.key for each in await shared.store.standings()] == [key]


async def test_scripts_flushed_all_the_time(shared: Fleet, client: redis.Redis) -> None:
    """With SCRIPT FLUSH every few milliseconds samples are judged all the same, and no error surfaces."""
    keys = [await shared.endpoint(f"ep_{number}", SAMPLED) for number in range(8)]
    for number in range(8):
        await shared.attempts(failed=12, id_=f"ep_{number}")
    flushing = asyncio.Event()

    async def flush_on() -> None:
        while not flushing.is_set():
            client.script_flush()
            await asyncio.sleep(0.005)

    task = asyncio.create_task(flush_on())
    try:
        for _ in range(10):
            await shared.sample()
    finally:
        flushing.set()
        await task
    assert {(await shared.state(key)).state for key in keys} == {State.OPEN}


@pytest.mark.parametrize("harm", ["wrong type", "out of memory", "read only"])
async def test_what_cannot_be_written_is_written_later(shared: Fleet, client: redis.Redis, harm: str) -> None:
    """A Redis that refuses writes, or one shard of it, ends no sampling; the first sample after it makes up for it."""
    keys = [await shared.endpoint(f"ep_{number}", SAMPLED) for number in range(8)]
    await shared.sample()
    for number in range(8):
        await shared.attempts(failed=12, id_=f"ep_{number}")
    _do(client, harm)
    try:
        sampled = await shared.sampler.sample(FIRST)
        assert len(sampled.judgement.transitions) < 8
    except StoreError:
        # Nothing at all could be written.
        assert harm != "wrong type"
    finally:
        _undo(client, harm)
    await shared.sample()
    seen = [await shared.state(key) for key in keys]
    assert {each.state for each in seen} == {State.OPEN}
    assert {each.totals.failed for each in seen} == {0}, "no endpoint is charged with what Redis did"


def _do(client: redis.Redis, harm: str) -> None:
    match harm:
        case "wrong type":
            client.set("test:v1:{0}:index", "x")
        case "out of memory":
            client.config_set("maxmemory", 1)
        case "read only":
            client.replicaof("127.0.0.1", 1)


def _undo(client: redis.Redis, harm: str) -> None:
    match harm:
        case "wrong type":
            client.delete("test:v1:{0}:index")
        case "out of memory":
            client.config_set("maxmemory", 0)
        case "read only":
            client.replicaof("NO", "ONE")
