"""What does a guarded call cost: when it succeeds, when it fails, and when it is refused?

Each round makes a new breaker for every library, form and path, in a random order, and times a batch of calls
on it. A case counts with the best of its rounds, the one that the machine disturbed least. The work is empty,
so all of the time is the guard's, but for the floor: the same calls with nothing around them.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import repeat
from time import perf_counter

from benchmarks.libraries import TASKS, THREADS
from benchmarks.libraries.ours import AFTER_A_FAILURE
from benchmarks.report import Bar, Report, progress, table
from benchmarks.subjects import NEVER, OURS, AsyncWork, Down, Form, Settings, Subject, W, Work, trip, trip_async

ROUNDS = 40
CALLS = 1_000
TIMES_AS_FAST = 2.0

_NOTES = f"""\
Microseconds per call, best of {ROUNDS} rounds of {CALLS:,} calls; then how many times ours that is, in the same form.
Most peers count failures in a row and nothing else; interlock-cb keeps the last 100 calls and their slowness. Ours
keeps a sliding window with latencies, and totals, for each key; its refusals say why, and when to come back."""


class Path(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    OPEN = "open"


class Nothing(Exception):
    """Never raised: what a path without exceptions expects."""


@dataclass
class Case:
    """One cell of a table: what a subject takes on a path, in seconds per call, in each round."""

    library: str
    group: str
    path: Path
    measure: Callable[[], float]
    rounds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.rounds)


def main() -> Report:
    with asyncio.Runner() as runner:
        cases = [*_thread_cases(), *_task_cases(runner)]
        for done in range(ROUNDS):
            progress("calls, rounds", done, ROUNDS)
            for case in random.sample(cases, len(cases)):
                case.rounds.append(case.measure())
        progress("calls, rounds", ROUNDS, ROUNDS)
    best = {(case.group, case.library, case.path): case.best for case in cases}
    groups = list(dict.fromkeys(case.group for case in cases))
    return Report([_table(best, group) for group in groups], _NOTES, list(_bars(best)))


def _thread_cases() -> Iterator[Case]:
    floors = [Subject(_FLOOR, form, _unguarded, Nothing) for form in Form]
    for subject in _in_order([*floors, *THREADS, AFTER_A_FAILURE]):
        for path in _paths(subject.library):
            yield Case(subject.library, f"{subject.form}, threads", path, _threads(subject, path))


def _task_cases(runner: asyncio.Runner) -> Iterator[Case]:
    floors = [Subject(_FLOOR, form, _unguarded_async, Nothing) for form in Form]
    for subject in _in_order([*floors, *TASKS]):
        for path in _paths(subject.library):
            yield Case(subject.library, f"{subject.form}, asyncio", path, _tasks(subject, path, runner))


_FLOOR = "nothing around it"


def _unguarded(work: Work, settings: Settings) -> Work:
    return work


def _unguarded_async(work: AsyncWork, settings: Settings) -> AsyncWork:
    return work


def _in_order(subjects: list[Subject[W]]) -> list[Subject[W]]:
    """By form, with the longer way of ours right below ours."""
    return sorted(subjects, key=lambda subject: (subject.form is Form.BLOCK, subject.library not in _FIRST))


_FIRST = (_FLOOR, OURS, AFTER_A_FAILURE.library)


def _paths(library: str) -> list[Path]:
    if library == AFTER_A_FAILURE.library:
        return [Path.SUCCESS]
    return [Path.SUCCESS, Path.FAILURE] if library == _FLOOR else list(Path)


def _settings(path: Path) -> Settings:
    return Settings(threshold=NEVER) if path is Path.FAILURE else Settings()


def _expected(path: Path, refusal: type[Exception]) -> type[Exception]:
    """The only exception that a call on this path may end with; any other stops the benchmark."""
    if path is Path.SUCCESS:
        return Nothing
    return Down if path is Path.FAILURE else refusal


def _threads(subject: Subject[Work], path: Path) -> Callable[[], float]:
    work = _succeed if path is Path.SUCCESS else _fail
    expected = _expected(path, subject.refusal)

    def measure() -> float:
        guarded = subject.guard(work, _settings(path))
        if path is Path.OPEN:
            trip(guarded, subject.refusal)
        start = perf_counter()
        for _ in repeat(None, CALLS):
            try:
                guarded()
            except expected:
                pass
        return (perf_counter() - start) / CALLS

    return measure


def _tasks(subject: Subject[AsyncWork], path: Path, runner: asyncio.Runner) -> Callable[[], float]:
    work = _succeed_async if path is Path.SUCCESS else _fail_async
    expected = _expected(path, subject.refusal)

    async def measure() -> float:
        guarded = subject.guard(work, _settings(path))
        if path is Path.OPEN:
            await trip_async(guarded, subject.refusal)
        start = perf_counter()
        for _ in repeat(None, CALLS):
            try:
                await guarded()
            except expected:
                pass
        return (perf_counter() - start) / CALLS

    return lambda: runner.run(measure())


def _succeed() -> None:
    pass


def _fail() -> None:
    raise Down


async def _succeed_async() -> None:
    pass


async def _fail_async() -> None:
    raise Down


def _table(best: dict[tuple[str, str, Path], float], group: str) -> str:
    libraries = dict.fromkeys(library for its, library, _ in best if its == group)
    rows = [[library, *(_cell(best, group, library, path) for path in Path)] for library in libraries]
    return table([group, *Path], rows)


def _cell(best: dict[tuple[str, str, Path], float], group: str, library: str, path: Path) -> str:
    seconds = best.get((group, library, path))
    if seconds is None:
        return ""
    return f"{seconds * 1e6:.2f}  {seconds / best[group, OURS, path]:5.2f}x"


def _bars(best: dict[tuple[str, str, Path], float]) -> Iterator[Bar]:
    for path in (Path.SUCCESS, Path.OPEN):
        for form in Form:
            group = f"{form}, threads"
            ratio = best[group, "pybreaker", path] / best[group, OURS, path]
            claim = f"{path}, {form}: at least {TIMES_AS_FAST:g}x as fast as pybreaker"
            yield Bar(claim, f"{ratio:.2f}x", ratio >= TIMES_AS_FAST)
