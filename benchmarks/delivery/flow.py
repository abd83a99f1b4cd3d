"""From accept to settled: messages of 1 KB to 100 endpoints, durable, signed, through a breaker each.

The floor is a bare aiohttp loop that posts the same bodies to the same sink (`bare.py`): with asyncio as it comes,
which the bars go by, and on uvloop, as ours is. SQLite is one process: producers and worker share it. On Postgres the
producers are this process, workers are others, and breakers are shared through Redis. The clock runs from the first
accept to the last settle.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.delivery.world import BODY, Place, app_id, emptied, produce, run, settle_in
from benchmarks.report import Bar, say
from benchmarks.rounds import Rounds
from hookfuse.app.process import prepare_process
from hookfuse.app.station import Station
from hookfuse.core.delivery import Chosen, DeliveryState
from hookfuse.testing.receivers import Ok, Order, ReceiversProcess

ENDPOINTS = 100
MESSAGES = 20_000
CALLERS = 4 * ENDPOINTS
"""Who hand in messages, each after the answer to the one before."""
IN_FLIGHT = 100
"""Requests of the bare loop: with 400 it is slower."""
ROUNDS = 5
# As a file, not as a module of this package: what that imports would make Python's collector look less often.
_BARE = str(Path(__file__).with_name("bare.py"))


def measure(places: Sequence[Place]) -> tuple[list[str], list[Bar]]:
    # As the service does.
    prepare_process()
    with ReceiversProcess() as sink:
        urls = list(sink.add_all({f"e{number}": Order(Ok()) for number in range(ENDPOINTS)}).values())
        rounds = Rounds("aiohttp")
        for turn in range(ROUNDS):
            say(f"delivery, round {turn + 1} of {ROUNDS}")
            rounds.add("aiohttp", floor(urls))
            rounds.add("aiohttp on uvloop", floor(urls, "uvloop"))
            for place in places:
                for workers in (1,) if place.redis is None else (1, 2):
                    name = f"{place.name}, {workers} worker{'s' * (workers > 1)}"
                    rounds.add(name, run(_deliver(place, sink, urls, workers)))
    bars = [
        Bar(f"{name}: at least {least:.1f} x a bare aiohttp loop", f"{ratio:.2f}x", ratio >= least)
        for name, least in (("Postgres, 1 worker", 1.0), ("SQLite, 1 worker", 0.8))
        if name in rounds
        for ratio in (rounds.ratio(name),)
    ]
    return [rounds.table("deliveries a second, accept to settled")], bars


def floor(urls: Sequence[str], loop: str = "asyncio") -> float:
    """What the bare loop posts in a second."""
    command = [sys.executable, _BARE, loop, str(MESSAGES), str(IN_FLIGHT), str(len(BODY))]
    done = subprocess.run(command, input="\n".join(urls), stdout=subprocess.PIPE, text=True, check=True)
    return float(done.stdout)


async def _deliver(place: Place, sink: ReceiversProcess, urls: Sequence[str], workers: int) -> float:
    await emptied(place)
    apps = [app_id(number) for number in range(len(urls))]
    async with Station(place.settings()) as station:
        await settle_in(station, urls)
        helpers = [] if place.redis is None else [start_worker(place) for _ in range(workers)]
        working = asyncio.create_task(station.worker.run()) if place.redis is None else None
        try:
            await produce(station.acceptor, apps, len(apps))
            await until_settled(station)
            before = sink.requests
            started = time.perf_counter()
            await produce(station.acceptor, apps, MESSAGES, CALLERS)
            # Asking the sink disturbs nobody; the database is asked once it can only be about the last settlements.
            while sink.requests < before + MESSAGES:
                await asyncio.sleep(0.005)
            await until_settled(station)
            seconds = time.perf_counter() - started
            await _check_sent(station, apps, len(apps) + MESSAGES)
            return MESSAGES / seconds
        finally:
            station.worker.stop()
            if working is not None:
                await working
            for helper in helpers:
                helper.terminate()
                helper.wait()


def start_worker(place: Place) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "benchmarks.delivery.worker",
        place.database,
        place.redis or "",
        str(place.key_file),
    ]
    return subprocess.Popen(command)


async def until_settled(station: Station) -> None:
    while (left := await station.store.backlog()).waiting or left.in_flight:
        await asyncio.sleep(0.01)


async def _check_sent(station: Station, apps: Sequence[str], count: int) -> None:
    sent = (DeliveryState.SENT,)
    found = sum([await station.store.count(Chosen(app, states=sent)) for app in apps])
    assert found == count, f"{found} of {count} were sent"
