"""When a cool-off ends and fifty callers are waiting, how many of them reach a target that is still dead?

The target holds whoever reaches it until all fifty have got there or were refused, and then fails: slowly, as
dead targets do. A library may make its callers queue behind the one that is at the target, so the target's
patience is bounded. Ours runs on a clock that is turned by hand; the others have to sleep.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

from benchmarks.libraries import TASKS, THREADS
from benchmarks.report import Bar, Report, progress, table
from benchmarks.subjects import OURS, AsyncWork, Down, Form, Settings, Subject, Work, trip, trip_async
from hookfuse.testing import ManualClock

CALLERS = 50
ROUNDS = 5
COOL_OFF = 0.5
PATIENCE = 0.3
_ENOUGH = 100

_NOTES = f"""\
Calls that reach the dead target, in each of {ROUNDS} rounds: of {CALLERS} callers at once; then of callers that
come one by one, until the first is refused. And the longest that one of the {CALLERS} waited to be refused."""


class Edge(NamedTuple):
    """What the callers of one breaker met."""

    at_once: int
    after: int
    longest_wait: float


def main() -> Report:
    threads: dict[tuple[str, Form], list[Edge]] = defaultdict(list)
    tasks: dict[tuple[str, Form], list[Edge]] = defaultdict(list)
    for done in range(ROUNDS):
        progress("edge, rounds", done, ROUNDS)
        for subject, edge in _round_of_threads():
            threads[subject.library, subject.form].append(edge)
        for task, edge in asyncio.run(_round_of_tasks()):
            tasks[task.library, task.form].append(edge)
    progress("edge, rounds", ROUNDS, ROUNDS)
    tables = [_table(f"{CALLERS} threads", threads), _table(f"{CALLERS} tasks", tasks)]
    return Report(tables, _NOTES, [*_bars("threads", threads), *_bars("tasks", tasks)])


def _round_of_threads() -> list[tuple[Subject[Work], Edge]]:
    clock = ManualClock()
    settings = Settings(cool_off=COOL_OFF, clock=clock)
    stages = [(subject, ThreadStage(subject, settings)) for subject in THREADS]
    clock.advance(COOL_OFF)
    time.sleep(COOL_OFF)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # Threads take turns often, so that what can go wrong between them does.
    try:
        return [(subject, stage.play()) for subject, stage in stages]
    finally:
        sys.setswitchinterval(interval)


async def _round_of_tasks() -> list[tuple[Subject[AsyncWork], Edge]]:
    clock = ManualClock()
    settings = Settings(cool_off=COOL_OFF, clock=clock)
    stages = [(subject, TaskStage(subject)) for subject in TASKS]
    for _, stage in stages:
        await stage.open(settings)
    clock.advance(COOL_OFF)
    await asyncio.sleep(COOL_OFF)
    return [(subject, await stage.play()) for subject, stage in stages]


class ThreadStage:
    """An open breaker with a dead target behind it, and threads in front."""

    def __init__(self, subject: Subject[Work], settings: Settings) -> None:
        self._refusal = subject.refusal
        self._reached: list[int] = []
        self._waits: list[float] = []
        self._answered = threading.Event()
        self._answered.set()

        def target() -> None:
            self._reached.append(threading.get_ident())
            self._note_answer()
            self._answered.wait(PATIENCE)
            raise Down

        self._guarded = subject.guard(target, settings)
        trip(self._guarded, subject.refusal)

    def play(self) -> Edge:
        self._reached.clear()
        self._answered.clear()
        barrier = threading.Barrier(CALLERS)
        callers = [threading.Thread(target=self._call, args=(barrier,)) for _ in range(CALLERS)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        self._answered.set()
        return Edge(len(self._reached), self._one_by_one(), max(self._waits, default=0.0))

    def _call(self, barrier: threading.Barrier) -> None:
        barrier.wait()
        start = perf_counter()
        try:
            self._guarded()
        except (self._refusal, Down):
            pass
        # Some raise the same error for a refusal and for a failed probe, so the target is asked who was there.
        if threading.get_ident() not in self._reached:
            self._waits.append(perf_counter() - start)
            self._note_answer()

    def _note_answer(self) -> None:
        if len(self._reached) + len(self._waits) >= CALLERS:
            self._answered.set()

    def _one_by_one(self) -> int:
        for reached in range(_ENOUGH):
            before = len(self._reached)
            try:
                self._guarded()
            except (self._refusal, Down):
                pass
            if len(self._reached) == before:
                return reached
        return _ENOUGH


class TaskStage:
    """The same with tasks."""

    def __init__(self, subject: Subject[AsyncWork]) -> None:
        self._subject = subject
        self._reached: list[object] = []
        self._waits: list[float] = []
        self._answered = asyncio.Event()
        self._answered.set()

    async def open(self, settings: Settings) -> None:
        async def target() -> None:
            self._reached.append(asyncio.current_task())
            self._note_answer()
            try:
                await asyncio.wait_for(self._answered.wait(), PATIENCE)
            except TimeoutError:
                pass
            raise Down

        self._guarded = self._subject.guard(target, settings)
        await trip_async(self._guarded, self._subject.refusal)

    async def play(self) -> Edge:
        self._reached.clear()
        self._answered.clear()
        await asyncio.gather(*(self._call() for _ in range(CALLERS)))
        self._answered.set()
        return Edge(len(self._reached), await self._one_by_one(), max(self._waits, default=0.0))

    async def _call(self) -> None:
        start = perf_counter()
        try:
            await self._guarded()
        except (self._subject.refusal, Down):
            pass
        if asyncio.current_task() not in self._reached:
            self._waits.append(perf_counter() - start)
            self._note_answer()

    def _note_answer(self) -> None:
        if len(self._reached) + len(self._waits) >= CALLERS:
            self._answered.set()

    async def _one_by_one(self) -> int:
        for reached in range(_ENOUGH):
            before = len(self._reached)
            try:
                await self._guarded()
            except (self._subject.refusal, Down):
                pass
            if len(self._reached) == before:
                return reached
        return _ENOUGH


def _table(title: str, edges: dict[tuple[str, Form], list[Edge]]) -> str:
    rows = [
        [
            f"{library}, {form}",
            _range([edge.at_once for edge in rounds]),
            _range([edge.after for edge in rounds]),
            _wait(rounds),
        ]
        for (library, form), rounds in edges.items()
    ]
    return table([title, "at once", "one by one", "longest wait"], rows)


def _range(counts: list[int]) -> str:
    low, high = min(counts), max(counts)
    return str(low) if low == high else f"{low} to {high}"


def _wait(rounds: list[Edge]) -> str:
    if all(edge.at_once >= CALLERS for edge in rounds):
        return ""
    return f"{max(edge.longest_wait for edge in rounds) * 1000:.0f} ms"


def _bars(what: str, edges: dict[tuple[str, Form], list[Edge]]) -> Iterator[Bar]:
    for form in Form:
        counts = [edge.at_once for edge in edges[OURS, form]]
        claim = f"{CALLERS} {what}, {form}: exactly 1 call reaches the dead target"
        yield Bar(claim, _range(counts), set(counts) == {1})
