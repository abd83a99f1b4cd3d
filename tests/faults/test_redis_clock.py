"""No breaker stays open longer than its cool-off, whatever the clocks do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from hookfuse import AsyncBreakers, Breakers, Outcome, Policy, State, Streak
from hookfuse.stores.memory import MemoryStore
from hookfuse.stores.redis import RedisStore
from hookfuse.testing import ManualClock
from hookfuse.testing.redis import store_with_clock

HOUR = 3600
COOL_OFF = 0.3
IDLE = 0.25
OPEN_SHORTLY = Policy(trip=Streak(1), cool_off=COOL_OFF)

# The server's own time, and so much more as a key says.
SHIFTED = """
local function clock_ms()
  local time = redis.call('TIME')
  local shift = tonumber(redis.call('GET', 'shift_ms') or '0')
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000) + shift
end
"""


class JumpingServer:
    """A Redis whose clock jumps when told to; its breakers run in real time otherwise."""

    def __init__(self, url: str) -> None:
        self.store = RedisStore(url, _includes=(("now", SHIFTED),))
        self.client = redis.Redis.from_url(url)
        self._shift_ms = 0

    def jump(self, seconds: float) -> None:
        self._shift_ms += round(seconds * 1000)
        self.client.set("shift_ms", self._shift_ms)


@pytest.fixture
def server(redis_url: str) -> Iterator[JumpingServer]:
    made = JumpingServer(redis_url)
    yield made
    made.client.close()


JUMPS = [
    pytest.param(before, while_open, id=f"{before:+}h before, {while_open:+}h while open")
    for before, while_open in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, -1), (-1, 1))
]


@pytest.mark.parametrize("consistency", ["mirror", "strict"])
@pytest.mark.parametrize(("before", "while_open"), JUMPS)
def test_the_server_clock_jumps(server: JumpingServer, before: int, while_open: int, consistency: Any) -> None:
    """Though the server's clock jumps by an hour, the probe goes within the cool-off, a tenth of it, and a second."""
    with Breakers(server.store, policy=OPEN_SHORTLY, consistency=consistency) as breakers:
        breakers._session.catch_up()
        server.jump(before * HOUR)
        opened = time.monotonic()
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        assert not breakers.admit("ep").allowed
        server.jump(while_open * HOUR)
        while not (probe := breakers.admit("ep")).allowed:
            assert time.monotonic() - opened < COOL_OFF * 1.1 + 1
            time.sleep(0.005)
        breakers.record(probe, Outcome.OK)
        assert breakers.inspect("ep").state is State.CLOSED


@pytest.mark.parametrize(("before", "while_open"), JUMPS)
def test_the_server_clock_jumps_for_asyncio(server: JumpingServer, before: int, while_open: int) -> None:
    """For asyncio it is all the same."""

    async def scenario() -> None:
        async with AsyncBreakers(server.store, policy=OPEN_SHORTLY) as breakers:
            await breakers._session.catch_up()
            server.jump(before * HOUR)
            await breakers.record(await breakers.admit("ep"), Outcome.FAILURE)
            assert not (await breakers.admit("ep")).allowed
            server.jump(while_open * HOUR)
            async with asyncio.timeout(COOL_OFF * 1.1 + 1):
                while not (probe := await breakers.admit("ep")).allowed:
                    await asyncio.sleep(0.005)
            await breakers.record(probe, Outcome.OK)
            assert (await breakers.inspect("ep")).state is State.CLOSED

    asyncio.run(scenario())


@pytest.fixture(params=["memory", "redis, mirror", "redis, strict"])
def turned_by_hand(request: pytest.FixtureRequest, redis_url: str) -> Iterator[tuple[Breakers, ManualClock]]:
    """Breakers, and the clock of their store."""
    if request.param == "memory":
        clock = ManualClock()
        yield Breakers(MemoryStore(clock=clock), policy=OPEN_SHORTLY), clock
        return
    store, server_clock = store_with_clock(redis_url)
    consistency: Any = request.param.split(", ")[1]
    with Breakers(store, policy=OPEN_SHORTLY, consistency=consistency) as breakers:
        yield breakers, server_clock
    server_clock.close()


@pytest.mark.parametrize("waited", [0, 10, 29, 31, 60])
def test_a_hold_does_not_come_back(turned_by_hand: tuple[Breakers, ManualClock], waited: float) -> None:
    """A Retry-After that was given before the clock went back by an hour holds nobody for that hour."""
    breakers, clock = turned_by_hand
    breakers.record(breakers.admit("ep"), Outcome.throttled(retry_after=30))
    breakers._session.catch_up()
    assert not breakers.admit("ep").allowed
    clock.advance(waited)
    clock.advance(-HOUR)
    refused = 0
    for _ in range(HOUR // 5 + 20):
        refused += not breakers.admit("ep").allowed
        clock.advance(5)
    assert refused * 5 <= 30 * 1.1 + 1


def test_an_idle_process_knows_the_time(redis_url: str) -> None:
    """A mirror's idea of the server's time does not fall behind while it waits for something to happen."""
    with (
        Breakers(RedisStore(redis_url), policy=OPEN_SHORTLY) as idle,
        Breakers(RedisStore(redis_url), policy=OPEN_SHORTLY) as others,
    ):
        idle._session.catch_up()
        for number in range(6):
            others.force_open(f"forced_{number}")
            # Nothing happens, and the reader of the idle process blocks.
            time.sleep(IDLE)
            began = time.monotonic()
            others.record(others.admit(f"ep_{number}"), Outcome.FAILURE)
            idle._session.catch_up()
            while not idle.admit(f"ep_{number}").allowed:
                time.sleep(0.002)
            assert COOL_OFF * 0.9 <= time.monotonic() - began < COOL_OFF * 1.1 + IDLE / 2
