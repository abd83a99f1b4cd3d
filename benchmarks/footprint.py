"""How much memory a live key takes, measured in processes that do nothing else.

tracemalloc says what was allocated, but needs memory itself; so what a process grows by is measured in another.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from pathlib import Path

from benchmarks.report import say
from hookfuse import Breakers, Outcome, Policy, Streak
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

_WINDOW = 60
_BUCKET = 6
_FAILURES = 5


class Fill(StrEnum):
    """What a key has seen; each goes on from the one before."""

    ONE = "one success"
    FULL = "a full window"
    FAILED = "a full window and its last failures"


class Gauge(StrEnum):
    ALLOCATED = "allocated"
    RESIDENT = "resident"


def measure(keys: int) -> dict[Fill, dict[Gauge, float]]:
    """Bytes per key."""
    say("keys, memory: half a minute")
    with ThreadPoolExecutor(len(Gauge)) as pool:
        grown = dict(zip(Gauge, pool.map(lambda gauge: _in_a_child(gauge, keys), Gauge), strict=True))
    return {fill: {gauge: grown[gauge][number] for gauge in Gauge} for number, fill in enumerate(Fill)}


def _in_a_child(gauge: Gauge, keys: int) -> list[float]:
    # Tracing takes three times as long. A quarter of the keys fills the store's tables to the same degree.
    count = keys // 4 if gauge is Gauge.ALLOCATED else keys
    command = [sys.executable, "-m", "benchmarks.footprint", gauge, str(count)]
    return [float(line) for line in subprocess.check_output(command, text=True).split()]


def _grow(gauge: Gauge, count: int) -> Iterator[float]:
    clock = ManualClock()
    breakers = Breakers(MemoryStore(clock=clock), policy=Policy(trip=Streak(1_000), window=_WINDOW))
    _succeed(breakers, ["warm"])
    gc.collect()
    if gauge is Gauge.ALLOCATED:
        tracemalloc.start()
    before = _bytes(gauge)
    keys = [f"ep_{number:08}" for number in range(count)]

    _succeed(breakers, keys)
    yield (_bytes(gauge) - before) / count

    for _ in range(_WINDOW // _BUCKET):
        clock.advance(_BUCKET)
        _succeed(breakers, keys)
    _check(breakers.inspect(keys[0]).counts.ok == _WINDOW // _BUCKET + 1)
    yield (_bytes(gauge) - before) / count

    for _ in range(_FAILURES):
        _fail(breakers, keys)
    _check(len(breakers.inspect(keys[0]).failures) == _FAILURES)
    yield (_bytes(gauge) - before) / count


def _succeed(breakers: Breakers, keys: list[str]) -> None:
    for key in keys:
        breakers.record(breakers.admit(key), Outcome.OK, latency=0.1)


def _fail(breakers: Breakers, keys: list[str]) -> None:
    for key in keys:
        breakers.record(breakers.admit(key), Outcome.FAILURE, error=f"503 from https://{key}.example/hook")


def _bytes(gauge: Gauge) -> int:
    gc.collect()
    if gauge is Gauge.ALLOCATED:
        return tracemalloc.get_traced_memory()[0]
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _check(filled: bool) -> None:
    if not filled:
        raise AssertionError("The keys do not hold what this measures: has the window other buckets now?")


if __name__ == "__main__":
    for size in _grow(Gauge(sys.argv[1]), int(sys.argv[2])):
        print(size)
