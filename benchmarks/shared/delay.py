"""How long after a trip in one process does another one refuse?

Two processes of asyncio are each kept about half busy with guarded calls on healthy keys. One trips a key; the other
calls that key all the while, and says when it was first refused. Both read the same monotonic clock. The time runs
from before the failure is reported.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from itertools import count

from benchmarks.report import Bar, progress, table
from hookfuse import AsyncBreakers, BreakerOpen, Outcome, Policy, Streak
from hookfuse.stores.redis import RedisStore

TRIPS = 250
ENOUGH = 200
P99_MS = 10.0

_BUSY = 0.5
_BURST = 20
_KEYS = 100
_PATIENCE = 20.0
"""Seconds for all trips; a slow machine gets through fewer of them."""


def measure(url: str) -> tuple[str, list[Bar]]:
    delays, busy = asyncio.run(_trip(url))
    delays.sort()
    p50, p99 = (delays[int(len(delays) * part)] * 1000 for part in (0.5, 0.99))
    row = [f"{len(delays)} trips", f"{p50:.1f}", f"{p99:.1f}", f"{delays[-1] * 1000:.1f}", f"{busy:.0%}"]
    head = ["from a trip to a refusal elsewhere", "p50 ms", "p99 ms", "max ms", "busy"]
    claim = f"a trip is known in another process within {P99_MS:g} ms (p99 of at least {ENOUGH})"
    met = len(delays) >= ENOUGH and p99 <= P99_MS
    return table(head, [row]), [Bar(claim, f"{p99:.1f} ms of {len(delays)}", met)]


def _breakers(url: str) -> AsyncBreakers:
    return AsyncBreakers(RedisStore(url, prefix="delay"), policy=Policy(trip=Streak(1), cool_off=600))


async def _trip(url: str) -> tuple[list[float], float]:
    """The seconds of each trip, as many as there was time for, and how busy this process was."""
    command = [sys.executable, "-c", "import sys; from benchmarks.shared import delay; delay.watch(sys.argv[1])", url]
    other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert other.stdout is not None
    delays: list[float] = []
    async with _breakers(url) as breakers:
        await other.stdout.readline()
        load = Load(breakers)
        calling = asyncio.create_task(load.run())
        waiting_since: float | None = None
        try:
            async with asyncio.timeout(_PATIENCE):
                for number in range(TRIPS):
                    await asyncio.sleep(random.uniform(0.002, 0.012))
                    admission = await breakers.admit(f"trip_{number}")
                    waiting_since = tripped = time.monotonic()
                    await breakers.record(admission, Outcome.FAILURE, error="503")
                    delays.append(float(await other.stdout.readline()) - tripped)
                    waiting_since = None
                    progress("shared, trips", number + 1, TRIPS)
        except TimeoutError:
            # Out of time. A refusal that had not come yet took at least so long; between two trips there is none.
            if waiting_since is not None:
                delays.append(time.monotonic() - waiting_since)
        busy = load.share
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
    if other.returncode is None:
        other.kill()
    await other.wait()
    return delays, busy


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


def watch(url: str) -> None:
    asyncio.run(_watch(url))


async def _watch(url: str) -> None:
    """The other process: prints the instant of each key's first refusal."""
    async with _breakers(url) as breakers:
        load = Load(breakers)
        await load.burst()
        print("ready", flush=True)
        for number in range(TRIPS):
            while not await _refused(breakers, f"trip_{number}"):
                await load.burst()
            print(time.monotonic(), flush=True)
        # Killed when the trips are over.
        await load.run()


async def _refused(breakers: AsyncBreakers, key: str) -> bool:
    try:
        async with breakers.guard(key):
            return False
    except BreakerOpen:
        return True
