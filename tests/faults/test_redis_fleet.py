"""Many processes on one Redis decide as one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from typing import Any

import pytest

from hookfuse import BreakerOpen, Breakers, Count, Outcome, Policy, State, Streak, Transition
from hookfuse.stores.redis import RedisStore

fork = multiprocessing.get_context("fork")


def run_processes(count: int, work: Callable[..., Any], *args: Any) -> list[Any]:
    """Run `work(barrier, *args)` in many processes at once, and collect what they return."""
    barrier = fork.Barrier(count)
    results = fork.SimpleQueue()

    def run() -> None:
        results.put(work(barrier, *args))

    processes = [fork.Process(target=run) for _ in range(count)]
    for process in processes:
        process.start()
    collected = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return collected


MANY = Policy(trip=Count(10_000), window=600, cool_off=600)


def report_many(barrier: Barrier, url: str) -> list[Transition]:
    with Breakers(RedisStore(url, deadline=5), policy=MANY) as breakers:
        admissions = [breakers.admit("ep") for _ in range(2_000)]
        barrier.wait()
        made = [breakers.record(admission, Outcome.FAILURE) for admission in admissions]
    return [transition for transition in made if transition is not None]


def test_threshold_is_hit_once(redis_url: str) -> None:
    """Eight processes report 2,000 failures each: no count is lost, and exactly one trips the breaker."""
    with Breakers(RedisStore(redis_url), policy=MANY) as watcher:
        announced: list[Transition] = []
        watcher.subscribe(announced.append)
        watcher.catch_up()
        made = [each for one in run_processes(8, report_many, redis_url) for each in one]
        watcher.catch_up()
        seen = watcher.inspect("ep")
    assert seen.totals.failed == 16_000
    assert [each.numbers["failed"] for each in made] == [10_000]
    assert announced == made


PROBES = Policy(trip=Streak(1), cool_off=0.5, probes=3, probe_lease=60)


def ask_at_the_edge(barrier: Barrier, url: str, due: float) -> bool:
    with Breakers(RedisStore(url, deadline=5), policy=PROBES) as breakers:
        breakers.admit("other")
        barrier.wait()
        while time.time() < due:
            pass
        return breakers.admit("ep").allowed


def test_exactly_so_many_probes(redis_url: str) -> None:
    """Of fifty processes that ask at the end of the cool-off, exactly `probes` get through."""
    with Breakers(RedisStore(redis_url), policy=PROBES) as breakers:
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        due = breakers.inspect("ep").probe_at
        assert due is not None
        assert sum(run_processes(50, ask_at_the_edge, redis_url, due)) == 3


LEASED = Policy(trip=Streak(1), cool_off=0.05, probe_lease=1.0)


def take_the_probe_and_die(url: str) -> None:
    breakers = Breakers(RedisStore(url), policy=LEASED)
    while not breakers.admit("ep").allowed:
        time.sleep(0.005)
    os.kill(os.getpid(), signal.SIGKILL)


def test_killed_prober(redis_url: str) -> None:
    """When the prober is killed, the next probe goes at its lease's end: not before, and within a second after."""
    with Breakers(RedisStore(redis_url), policy=LEASED) as breakers:
        breakers.record(breakers.admit("ep"), Outcome.FAILURE)
        prober = fork.Process(target=take_the_probe_and_die, args=(redis_url,))
        prober.start()
        prober.join()
        assert prober.exitcode == -signal.SIGKILL
        changed = breakers.inspect("ep").changed_at
        assert changed is not None
        while not breakers.admit("ep").allowed:
            time.sleep(0.002)
        waited = time.time() - changed
        assert 1.0 <= waited < 2.0
        assert breakers.inspect("ep").trips == 1, "which is no failure"


def refused_in_another_process(barrier: Barrier, url: str) -> float:
    with Breakers(RedisStore(url), policy=Policy(trip=Streak(1), cool_off=60)) as breakers:
        breakers.catch_up()
        barrier.wait()
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            try:
                with breakers.guard("ep"):
                    pass
            except BreakerOpen:
                return time.time()
    return 0.0


def test_others_learn_at_once(redis_url: str) -> None:
    """A trip in one process is a refusal in another one a moment later, though it asks nobody."""
    barrier = fork.Barrier(2)
    times = fork.SimpleQueue()
    other = fork.Process(target=lambda: times.put(refused_in_another_process(barrier, redis_url)))
    other.start()
    with Breakers(RedisStore(redis_url), policy=Policy(trip=Streak(1), cool_off=60)) as breakers:
        admission = breakers.admit("ep")
        barrier.wait()
        began = time.time()
        breakers.record(admission, Outcome.FAILURE)
        took = times.get() - began
    other.join()
    assert took < 0.5


@pytest.mark.parametrize("offset", [3600, -3600])
def test_worker_clock(redis_url: str, offset: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose clock is an hour off changes nothing: the server's clock decides."""
    real = time.time
    policy = Policy(trip=Streak(1), cool_off=600)
    with Breakers(RedisStore(redis_url), policy=policy) as right:
        monkeypatch.setattr(time, "time", lambda: real() + offset)
        with Breakers(RedisStore(redis_url), policy=policy) as wrong:
            wrong.record(wrong.admit("ep"), Outcome.FAILURE)
            wrong.catch_up()
            for breakers in (wrong, right):
                retry_after = breakers.admit("ep").retry_after
                assert retry_after is not None
                assert 590 < retry_after <= 600


def test_forked_child_starts_anew(redis_url: str) -> None:
    """A forked child drops what its parent had buffered, reads by itself, and hears of what happens."""
    policy = Policy(trip=Streak(2), cool_off=60)
    with Breakers(RedisStore(redis_url), policy=policy) as breakers:
        with breakers.guard("ep"):
            pass
        ready, done = fork.Event(), fork.SimpleQueue()

        def child() -> None:
            before = breakers.inspect("ep").totals.ok
            breakers.catch_up()
            ready.set()
            while breakers.admit("other").allowed:
                time.sleep(0.005)
            done.put(before)

        process = fork.Process(target=child)
        process.start()
        assert ready.wait(5)
        for _ in range(2):
            breakers.record(breakers.admit("other"), Outcome.FAILURE)
        done.get()
        process.join()
        assert breakers.inspect("ep").totals.ok == 1, "told once, by the parent"
        assert breakers.inspect("other").state is State.OPEN
