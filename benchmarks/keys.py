"""What do many keys cost: the time of a call, and the memory of a key?

As many calls are made on 100 live keys as on 100,000, in chunks that take turns, so that both see the same
machine. The keys' strings exist beforehand and come in a random order, so that nothing can guess which is next.
Memory is measured by `footprint`, in processes of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

from benchmarks import footprint
from benchmarks.footprint import Fill, Gauge
from benchmarks.report import Bar, Report, progress, table
from hookfuse import BreakerOpen, Breakers, Outcome, Policy, Streak
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

FEW = 100
MANY = 100_000
PASSES = 5
CHUNK = 10_000
TIMES_AS_SLOW = 2.0
BYTES_PER_KEY = 2_000

# Wide enough that no bucket ends by itself while this runs.
_WINDOW = 3600
_BUCKET = _WINDOW // 10

_NOTES = f"""\
Microseconds per call, the best of {PASSES * MANY // CHUNK} chunks of {CHUNK:,} calls, and the ratio of the two.
A key that is called less often than once in a tenth of its window begins a bucket with every call. With 100,000 keys
and the default window of a minute, that is so below some 17,000 calls a second over all.
Bytes of a key with its string and its place in the store: resident is what a process with {MANY:,} keys grew by,
allocated what tracemalloc counts with a quarter of them. In a full window all buckets are in use."""


@dataclass
class Crowd:
    """Breakers with `size` live keys, and a pass of calls over them; a clock moves on when each key had its turn."""

    size: int
    calls: list[str]
    breakers: Breakers
    clock: ManualClock | None

    def chunk(self, at: int, call: Callable[[Breakers, list[str]], float]) -> float:
        """Seconds per call of one chunk."""
        turn = min(self.size, CHUNK)
        spent = 0.0
        for start in range(at, at + CHUNK, turn):
            if self.clock is not None and start % self.size == 0:
                self.clock.advance(_BUCKET)
            spent += call(self.breakers, self.calls[start : start + turn])
        return spent / CHUNK


def main() -> Report:
    few, many = _shuffled(FEW), _shuffled(MANY)
    rows, bars = [], []
    for name, call, outcome, by_hand in _SCENES:
        crowds = [_crowd(size, calls, outcome, by_hand) for size, calls in ((FEW, few), (MANY, many))]
        for_few, for_many = _measure(name, call, *crowds)
        ratio = for_many / for_few
        rows.append([name, f"{for_few * 1e6:.2f}", f"{for_many * 1e6:.2f}", f"{ratio:.2f}x"])
        claim = f"{name}: at most {TIMES_AS_SLOW:g}x the time at {MANY:,} keys"
        bars.append(Bar(claim, f"{ratio:.2f}x", ratio <= TIMES_AS_SLOW))
    times = table(["time of a call", f"{FEW} keys", f"{MANY:,} keys", "ratio"], rows)
    sizes = footprint.measure(MANY)
    return Report([times, _sizes(sizes)], _NOTES, [*bars, *_size_bars(sizes)])


def _shuffled(size: int) -> list[str]:
    """As many calls as there are many keys: each key in its turn, the turns in ever new order."""
    keys = [f"ep_{number:08}" for number in range(size)]
    return [key for _ in range(MANY // size) for key in random.sample(keys, size)]


def _crowd(size: int, calls: list[str], outcome: Outcome, by_hand: bool) -> Crowd:
    clock = ManualClock() if by_hand else None
    policy = Policy(trip=Streak(1), window=_WINDOW, cool_off=_WINDOW)
    breakers = Breakers(MemoryStore(clock=clock), policy=policy)
    for key in sorted(calls[:size]):
        breakers.record(breakers.admit(key), outcome)
    return Crowd(size, calls, breakers, clock)


def _measure(name: str, call: Callable[[Breakers, list[str]], float], few: Crowd, many: Crowd) -> tuple[float, float]:
    """The best seconds per call among few keys and among many."""
    for_few, for_many = [], []
    for done in range(PASSES):
        progress(f"keys, {name}, passes", done, PASSES)
        for at in range(0, MANY, CHUNK):
            for_few.append(few.chunk(at, call))
            for_many.append(many.chunk(at, call))
    progress(f"keys, {name}, passes", PASSES, PASSES)
    return min(for_few), min(for_many)


def _succeed(breakers: Breakers, keys: list[str]) -> float:
    start = perf_counter()
    for key in keys:
        with breakers.guard(key):
            pass
    return perf_counter() - start


def _be_refused(breakers: Breakers, keys: list[str]) -> float:
    start = perf_counter()
    for key in keys:
        try:
            with breakers.guard(key):
                raise AssertionError(f"{key} is open and was let through.")
        except BreakerOpen:
            pass
    return perf_counter() - start


_SCENES = (
    ("success", _succeed, Outcome.OK, False),
    ("refused", _be_refused, Outcome.FAILURE, False),
    ("success that begins a bucket", _succeed, Outcome.OK, True),
)


def _sizes(sizes: dict[Fill, dict[Gauge, float]]) -> str:
    rows = [[fill, *(f"{its[gauge]:,.0f}" for gauge in Gauge)] for fill, its in sizes.items()]
    return table(["bytes of a key", *Gauge], rows)


def _size_bars(sizes: dict[Fill, dict[Gauge, float]]) -> Iterator[Bar]:
    for fill in (Fill.ONE, Fill.FULL):
        most = max(sizes[fill].values())
        yield Bar(f"{fill}: at most {BYTES_PER_KEY:,} bytes a key", f"{most:,.0f}", most <= BYTES_PER_KEY)
