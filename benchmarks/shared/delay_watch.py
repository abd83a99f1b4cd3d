"""The other process of `delay`: half busy, and calling one key until it is refused.

It is told what to do in lines on its input and answers with a JSON object on a line each:

    trip KEY    call the key all the while, and say when it was first refused
    view KEY    say what this process knows of the key, and how busy it was

Bells that ring on a channel are answered with the instant at which they were heard.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from itertools import count
from typing import Any

import redis.asyncio

from hookfuse import AsyncBreakers, BreakerOpen, Policy, Streak
from hookfuse.stores.redis import RedisStore

BELL = "delay:bell"

_BUSY = 0.5
_BURST = 20
_KEYS = 100
_LOOK_EVERY = 0.0005


def open_breakers(url: str) -> AsyncBreakers:
    return AsyncBreakers(RedisStore(url, prefix="delay"), policy=Policy(trip=Streak(1), cool_off=600))


class Load:
    """Guarded calls in bursts, with such pauses that this process is busy for its part of the time."""

    def __init__(self, breakers: AsyncBreakers) -> None:
        self._breakers = breakers
        self._began = time.monotonic()
        self._used = time.process_time()

    @property
    def share(self) -> float:
        return (time.process_time() - self._used) / (time.monotonic() - self._began)

    async def run(self) -> None:
        for _ in count():
            await self.burst()

    async def burst(self) -> None:
        for _ in range(_BURST):
            async with self._breakers.guard(f"ep_{random.randrange(_KEYS)}"):
                pass
        ahead = (time.process_time() - self._used) / _BUSY - (time.monotonic() - self._began)
        await asyncio.sleep(max(ahead, 0))


def view(breakers: AsyncBreakers, key: str) -> dict[str, Any]:
    """What a process knows of a key: should it know too little, this says why."""
    session: Any = breakers._session
    mirror = session._session._verbs.mirror
    refused = session.refusal(key, breakers.policy(key)) is not None
    return {
        "degraded": breakers.degraded,
        "fresh": mirror.fresh,
        "generation": mirror.generation(key),
        "refused": refused,
    }


def watch(url: str) -> None:
    asyncio.run(_watch(url))


async def _watch(url: str) -> None:
    async with open_breakers(url) as breakers, redis.asyncio.Redis.from_url(url) as client, client.pubsub() as bells:
        await bells.subscribe(BELL)
        load = Load(breakers)
        await load.burst()
        running = [asyncio.create_task(each) for each in (load.run(), _hear(bells))]
        _say(ready=True)
        told = await _input()
        while line := await told.readline():
            order, key = line.decode().split()
            if order == "trip":
                running.append(asyncio.create_task(_call(breakers, key)))
            else:
                _say(view=view(breakers, key), busy=load.share)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _call(breakers: AsyncBreakers, key: str) -> None:
    while True:
        try:
            async with breakers.guard(key):
                pass
        except BreakerOpen:
            _say(refused=key, at=time.monotonic())
            return
        await asyncio.sleep(_LOOK_EVERY)


async def _hear(bells: redis.asyncio.client.PubSub) -> None:
    async for message in bells.listen():
        if message["type"] == "message":
            _say(bell=True, at=time.monotonic())


async def _input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


def _say(**what: object) -> None:
    print(json.dumps(what), flush=True)
