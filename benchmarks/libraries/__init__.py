"""How each library is used, as its own documentation tells; ours comes first."""

from benchmarks.libraries import aiobreaker, circuitbreaker, interlock, ours, purgatory, pybreaker
from benchmarks.subjects import AsyncWork, Subject, Work

THREADS: list[Subject[Work]] = [
    *ours.THREADS,
    *pybreaker.THREADS,
    *circuitbreaker.THREADS,
    *aiobreaker.THREADS,
    *purgatory.THREADS,
    *interlock.THREADS,
]
TASKS: list[Subject[AsyncWork]] = [
    *ours.TASKS,
    *circuitbreaker.TASKS,
    *aiobreaker.TASKS,
    *purgatory.TASKS,
    *interlock.TASKS,
]
