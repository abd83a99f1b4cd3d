"""Fault K18: names that hang, that do not exist or that have 4,000 addresses hold up no healthy one."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
import uvloop

from hookfuse.core.sending import Trouble
from hookfuse.transport import DnsResolver
from hookfuse.transport.resolver import ADDRESSES, Answer
from tests.unit.transport.plain_nameserver import naming_apart

HEALTHY = 0.2
"""Seconds for a healthy look-up. The name server takes 20 ms of it."""
TRIES = 20
WAVES = 4
CROWDS = {
    "hanging": {"hang": 1_500},
    "missing": {"missing": 1_000},
    "thousands of records": {"many": 100},
    "mixture": {"hang": 600, "missing": 600, "many": 50},
}


@pytest.fixture(autouse=True)
def _as_in_the_service() -> Iterator[None]:
    """The garbage collector looks as seldom as in a process that delivers."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, *before[1:])
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.parametrize("crowd", CROWDS)
def test_k18_healthy_names_beside_a_crowd(crowd: str) -> None:
    """On the loop of the service every healthy look-up takes at most 200 ms, though a crowd was asked for just before.

    Others may share our processors: the time for which we waited for one is theirs, and the best of some tries counts.
    In that one not a single healthy look-up may be slower.
    """
    slowest: list[float] = []
    while len(slowest) < TRIES and not (slowest and slowest[-1] <= HEALTHY):
        with naming_apart(0.02) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            slowest.append(runner.run(_slowest(DnsResolver([server], hosts={}), CROWDS[crowd])))
    print(f"healthy look-ups beside a crowd ({crowd}): {[round(each * 1000) for each in slowest]} ms")  # noqa: T201
    assert slowest[-1] <= HEALTHY, slowest


async def _slowest(resolver: DnsResolver, crowd: dict[str, int]) -> float:
    """Seconds for the slowest healthy name: some are asked for just after the crowd, others while it is answered."""
    # All kinds by turns, so that each is there from the beginning to the end.
    numbered = ((number / count, kind, number) for kind, count in crowd.items() for number in range(count))
    names = [f"{kind}-{number}.test" for _, kind, number in sorted(numbered)]
    started, held_up = monotonic(), _held_up()
    tasks = {name: asyncio.ensure_future(resolver.lookup(name)) for name in names}
    hanging = [task for name, task in tasks.items() if name.startswith("hang-")]
    others = {name: task for name, task in tasks.items() if not name.startswith("hang-")}
    times: list[float] = []
    while len(times) < WAVES or not all(task.done() for task in others.values()):
        wave = (resolver.lookup(f"hook{number}-{len(times)}.test") for number in range(20))
        assert set(map(_said, await asyncio.gather(*wave))) == {1}
        times.append(monotonic() - started - (_held_up() - held_up))
        started, held_up = monotonic(), _held_up()
    assert {(name.partition("-")[0], _said(task.result())) for name, task in others.items()} == {
        (kind, says) for kind, says in (("missing", Trouble.DNS), ("many", ADDRESSES)) if kind in crowd
    }
    await resolver.close()
    # A try may take so long that some had no answer in four seconds.
    assert set(map(_said, await asyncio.gather(*hanging))) <= {Trouble.LOCAL, Trouble.DNS}
    return max(times)


def _said(answer: Answer) -> Trouble | int:
    """What went wrong, or how many addresses there are."""
    return len(answer.addresses) if answer.failure is None else answer.failure.trouble


def _held_up() -> float:
    """Seconds for which this thread could have gone on, but others had the processors."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
