"""How long after a trip in one process does another one refuse?

Two processes of asyncio are each kept half busy with guarded calls on healthy keys. One trips a key; the other calls
that key all the while, and says when it was first refused. Both read the same monotonic clock. The time runs from
before the failure is reported. In between, a bare PUBLISH goes the same way under the same load, to tell what is ours
from what the machine does.

A trip that the other has not heard of after three seconds counts as never, and what both sides knew is told: a failure
that missed its deadline trips only its own process, which then says that it is degraded.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis.asyncio

from benchmarks.report import Bar, progress, table
from benchmarks.shared.delay_watch import BELL, Load, open_breakers, view
from hookfuse import AsyncBreakers, Outcome

TRIPS = 250
ENOUGH = 200
P99_MS = 10.0

_PATIENCE = 30.0
"""Seconds for all trips; a slow machine gets through fewer of them."""
_NEVER = 3.0
_PAUSES = (0.002, 0.012)


def measure(url: str) -> tuple[str, list[Bar]]:
    before, began = _idle_ticks(), time.monotonic()
    found = asyncio.run(_Trips(url).run())
    idle = _idle_share(before, _idle_ticks(), time.monotonic() - began)
    head = ["from one process to another", "p50 ms", "p99 ms", "max ms", "busy", "machine idle"]
    rows = [
        [f"{len(found.delays)} trips, until refused", *_percentiles(found.delays), found.busy, idle],
        [f"{len(found.bells)} bare PUBLISH", *_percentiles(found.bells), "", ""],
    ]
    p99 = _percentile(found.delays, 0.99)
    claim = f"a trip is known in another process within {P99_MS:g} ms (p99 of at least {ENOUGH})"
    met = len(found.delays) >= ENOUGH and p99 <= P99_MS / 1000
    text = "\n".join([table(head, rows), *(f"never heard of: {what}" for what in found.untold)])
    return text, [Bar(claim, f"{p99 * 1000:.1f} ms of {len(found.delays)}", met)]


class _Trips:
    """One run: trips and bells in turns."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.delays: list[float] = []
        self.bells: list[float] = []
        self.untold: list[str] = []
        self.busy = ""

    async def run(self) -> _Trips:
        code = "import sys; from benchmarks.shared import delay_watch; delay_watch.watch(sys.argv[1])"
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, self._url, stdin=pipe, stdout=pipe)
        other = _Other(process)
        async with open_breakers(self._url) as breakers, redis.asyncio.Redis.from_url(self._url) as client:
            await other.hear("ready")
            load = Load(breakers)
            calling = asyncio.create_task(load.run())
            ends = time.monotonic() + _PATIENCE
            for number in range(TRIPS):
                if time.monotonic() > ends:
                    break
                await self._trip(breakers, other, f"trip_{number}")
                await asyncio.sleep(random.uniform(*_PAUSES))
                rung = time.monotonic()
                await client.publish(BELL, number)
                self.bells.append((await other.hear("bell"))["at"] - rung)
                progress("shared, trips", number + 1, TRIPS)
            there = await other.view("trip_0")
            self.busy = f"{load.share:.0%}, {there['busy']:.0%}"
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            await other.end()
        return self

    async def _trip(self, breakers: AsyncBreakers, other: _Other, key: str) -> None:
        admission = await breakers.admit(key)
        other.tell(f"trip {key}")
        await asyncio.sleep(random.uniform(*_PAUSES))
        tripped = time.monotonic()
        transition = await breakers.record(admission, Outcome.FAILURE, error="503")
        try:
            async with asyncio.timeout(_NEVER):
                while (heard := await other.hear("refused"))["refused"] != key:
                    pass
                self.delays.append(heard["at"] - tripped)
        except TimeoutError:
            self.delays.append(math.inf)
            here, stored = view(breakers, key), await breakers.inspect(key)
            facts = {
                "key": key,
                "reported": admission.generation,
                "transition": transition and transition.generation,
                "stored": [stored.state, stored.generation],
                "here": here,
                "there": (await other.view(key))["view"],
            }
            self.untold.append(json.dumps(facts))


class _Other:
    """The other process, see `delay_watch`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input, self._output = process.stdin, process.stdout

    def tell(self, line: str) -> None:
        self._input.write(f"{line}\n".encode())

    async def hear(self, what: str) -> dict[str, Any]:
        """The next thing that it says of this kind."""
        while line := await self._output.readline():
            said: dict[str, Any] = json.loads(line)
            if what in said:
                return said
        raise RuntimeError("The other process has ended.")

    async def view(self, key: str) -> dict[str, Any]:
        self.tell(f"view {key}")
        return await self.hear("view")

    async def end(self) -> None:
        self._input.close()
        await self._process.wait()


def _percentile(delays: Sequence[float], part: float) -> float:
    return sorted(delays)[min(int(len(delays) * part), len(delays) - 1)] if delays else math.inf


def _percentiles(delays: Sequence[float]) -> list[str]:
    return [f"{_percentile(delays, part) * 1000:.1f}" for part in (0.5, 0.99, 1.0)]


def _idle_ticks() -> float | None:
    """Hundredths of a second that the cores of this machine have idled so far."""
    ticks = Path("/proc/stat")
    return float(ticks.read_text().split()[4]) if ticks.exists() else None


def _idle_share(before: float | None, after: float | None, seconds: float) -> str:
    """How much of the machine nobody used: near zero, what was measured is how it shares its cores."""
    if before is None or after is None:
        return ""
    cores = len(Path("/proc/stat").read_text().split("\ncpu")) - 1
    return f"{(after - before) / 100 / seconds / cores:.0%}"
