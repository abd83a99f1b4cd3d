"""The memory store under threads, forks, many keys and tight edges."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import Counter

import pytest

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Count, Outcome, Policy, State, Streak, Transition
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

CALLERS = 50


def run_threads(target: object, count: int = CALLERS) -> None:
    barrier = threading.Barrier(count)

    def run() -> None:
        barrier.wait()
        target()  # type: ignore[operator]

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_fifty_threads_at_the_edge() -> None:
    """Of fifty threads that ask at the end of the cool-off, exactly one reaches the dead target."""
    clock = ManualClock()
    breakers = Breakers(MemoryStore(clock=clock), policy=Policy(trip=Streak(1), cool_off=30))
    breakers.record(breakers.admit("ep"), Outcome.FAILURE)
    clock.advance(30)
    seen: Counter[str] = Counter()
    all_asked = threading.Barrier(CALLERS)

    def call() -> None:
        try:
            with breakers.guard("ep"):
                seen["reached"] += 1
                all_asked.wait()
                raise ConnectionError("dead")
        except ConnectionError:
            seen["failed"] += 1
        except BreakerOpen:
            seen["refused"] += 1
            all_asked.wait()

    run_threads(call)
    assert seen == {"reached": 1, "failed": 1, "refused": CALLERS - 1}


def test_fifty_tasks_at_the_edge() -> None:
    """Of fifty tasks that ask at the end of the cool-off, exactly one reaches the dead target."""

    async def scenario() -> int:
        clock = ManualClock()
        breakers = AsyncBreakers(MemoryStore(clock=clock), policy=Policy(trip=Streak(1), cool_off=30))
        await breakers.record(await breakers.admit("ep"), Outcome.FAILURE)
        clock.advance(30)
        reached = 0
        everyone_asked = asyncio.Event()

        async def call() -> None:
            nonlocal reached
            async with breakers.guard("ep"):
                reached += 1
                await everyone_asked.wait()
                raise ConnectionError("dead")

        calls = [asyncio.create_task(call()) for _ in range(CALLERS)]
        await asyncio.sleep(0)
        everyone_asked.set()
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert sum(isinstance(result, BreakerOpen) for result in results) == CALLERS - 1
        return reached

    assert asyncio.run(scenario()) == 1


def test_threshold_is_hit_once() -> None:
    """With many threads reporting at once no count is lost, and the threshold is hit exactly once."""
    breakers = Breakers(policy=Policy(trip=Count(1_000), window=60, cool_off=600))
    announced: list[Transition] = []
    returned: list[Transition] = []
    breakers.subscribe(announced.append)
    admissions = [[breakers.admit("ep") for _ in range(100)] for _ in range(20)]
    batches = iter(admissions)

    def report() -> None:
        for admission in next(batches):
            transition = breakers.record(admission, Outcome.FAILURE)
            if transition is not None:
                returned.append(transition)

    run_threads(report, 20)
    seen = breakers.inspect("ep")
    assert seen.totals.failed == 2_000
    assert seen.numbers == {"failed": 1_000, "limit": 1_000}
    assert announced == returned
    assert len(announced) == 1


def test_successes_of_many_threads_are_all_counted() -> None:
    """The quick way of counting successes loses none."""
    breakers = Breakers()

    def succeed() -> None:
        for _ in range(500):
            with breakers.guard("ep"):
                pass

    run_threads(succeed, 16)
    seen = breakers.inspect("ep")
    assert seen.totals.ok == seen.counts.ok == 8_000


def test_observers_hear_in_order_from_all_threads() -> None:
    """However many threads cause transitions, an observer hears them in the order of their generations."""
    breakers = Breakers(policy=Policy(trip=Streak(1)))
    heard: list[int] = []
    breakers.subscribe(lambda transition: heard.append(transition.generation))

    def flap() -> None:
        for _ in range(50):
            breakers.force_open("ep")
            breakers.reset("ep")

    run_threads(flap, 8)
    assert heard == sorted(set(heard))


def test_an_observer_may_use_breakers() -> None:
    """An observer can act on what it hears, and that is announced after it."""
    breakers = Breakers(policy=Policy(trip=Streak(1)))
    heard: list[tuple[str, str]] = []

    def disable(transition: Transition) -> None:
        if transition.after is State.OPEN:
            breakers.disable(transition.key, reason="observed")

    breakers.subscribe(disable)
    breakers.subscribe(lambda transition: heard.append((transition.after, transition.reason)))
    breakers.record(breakers.admit("ep"), Outcome.FAILURE)
    assert heard == [("open", "streak"), ("disabled", "observed")]


def test_a_million_keys_do_not_stay() -> None:
    """Keys with one success each are dropped once they went quiet, by the calls that come later."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    breakers = Breakers(store, policy=Policy(window=60))
    most = 0
    for number in range(1_000_000 if os.environ.get("CI") else 200_000):
        breakers.record(breakers.admit(f"key-{number}"), Outcome.OK)
        clock.advance(0.01)
        if number % 1000 == 0:
            most = max(most, len(store))
    assert most < 10_000, "a window holds six thousand"
    clock.advance(3600)
    for _ in range(1_000):
        breakers.record(breakers.admit("one"), Outcome.OK)
    assert len(store) == 1


def test_a_key_that_comes_and_goes_leaves_nothing() -> None:
    """A key that is forgotten and comes back, again and again, is kept once."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    breakers = Breakers(store, policy=Policy(window=60))
    for _ in range(500):
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        breakers.record(breakers.admit("ep"), Outcome.OK)
        clock.advance(1000)
    assert len(store) <= 1
    assert len(store._expiries) <= 2


def test_no_background_work() -> None:
    """Two hundred breakers start no thread."""
    before = threading.active_count()
    breakers = Breakers(policy=Policy(trip=Streak(1)))
    for number in range(200):
        breakers.record(breakers.admit(str(number)), Outcome.FAILURE)
    assert threading.active_count() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_fork_while_others_hold_the_lock() -> None:
    """A child forked while threads are recording has consistent breakers of its own and never hangs."""
    breakers = Breakers(policy=Policy(trip=Streak(1_000_000)))
    stop = threading.Event()

    def record() -> None:
        while not stop.is_set():
            breakers.record(breakers.admit("ep"), Outcome.FAILURE)

    threads = [threading.Thread(target=record) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        statuses = []
        for _ in range(20):
            child = os.fork()
            if child == 0:
                seen = breakers.inspect("ep")
                breakers.record(breakers.admit("ep"), Outcome.FAILURE)
                grown = breakers.inspect("ep").totals.failed == seen.totals.failed + 1
                os._exit(0 if grown and seen.streak == seen.totals.failed else 1)
            statuses.append(os.waitpid(child, 0)[1])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert statuses == [0] * 20


class FineClock:
    """A clock that also knows what lies between two milliseconds."""

    def __init__(self) -> None:
        self.at = 1_700_000_000.0

    def now(self) -> float:
        return self.at


@pytest.mark.parametrize("fraction", [0.0, 0.0003, 0.0005, 0.0008])
def test_a_success_of_the_hot_path_keeps_a_key_as_long_as_any(fraction: float) -> None:
    """Between two milliseconds, too, both kinds of success keep a key until the same instant."""
    clock = FineClock()
    breakers = Breakers(MemoryStore(clock=clock), policy=Policy(trip=Count(5), window=60))
    for key in ("stepped", "quick"):
        breakers.record(breakers.admit(key), Outcome.OK)
    clock.at += 1 + fraction
    breakers.record(breakers.admit("stepped"), Outcome.OK)
    with breakers.guard("quick"):
        pass
    known = []
    for after_ms in (66_999, 67_000, 67_001, 67_002):
        clock.at = 1_700_000_000 + after_ms / 1000
        stepped, quick = (breakers.inspect(key).totals.ok for key in ("stepped", "quick"))
        assert stepped == quick
        known.append(stepped)
    assert (known[0], known[-1]) == (2, 0)
