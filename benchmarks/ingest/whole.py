"""The whole way: taken over HTTP, committed, delivered, settled, by one API process and one worker process.

256 producers hold back while too much is under way, so the rate is one that can be kept up: the backlog never grows.
The clock starts once everyone is there and every endpoint has had a message.
The floor is a bare aiohttp loop that posts the same to the same sink, as for delivery alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter

from benchmarks.delivery.flow import floor, start_worker, until_settled
from benchmarks.delivery.world import Place, app_id, run
from benchmarks.ingest.load import post
from benchmarks.ingest.taking import api
from benchmarks.report import Bar, say
from benchmarks.rounds import Rounds
from hookfuse.app.station import Station
from hookfuse.testing.receivers import Ok, Order, ReceiversProcess

ENDPOINTS = 100
MESSAGES = 15_000
ROUNDS = 5
UNDER_WAY = 2_000
CONNECTIONS = 256
LEAST = 0.6


def measure(place: Place) -> tuple[str, list[Bar]]:
    rounds = Rounds("aiohttp")
    with ReceiversProcess() as sink:
        urls = list(sink.add_all({f"e{number}": Order(Ok()) for number in range(ENDPOINTS)}).values())
        for turn in range(ROUNDS):
            say(f"ingest, the whole way, round {turn + 1} of {ROUNDS}")
            rounds.add("aiohttp", floor(urls))
            rounds.add("aiohttp on uvloop", floor(urls, "uvloop"))
            with api(place, urls) as (port, key):
                worker = start_worker(place)
                try:
                    rounds.add(place.name, run(_send(place, sink, port, key)))
                finally:
                    worker.terminate()
                    worker.wait()
    ratio = rounds.ratio(place.name)
    claim = f"{place.name}: from HTTP to settled at least {LEAST:g} x a bare aiohttp loop"
    return rounds.table("messages a second, the whole way"), [Bar(claim, f"{ratio:.2f}x", ratio >= LEAST)]


async def _send(place: Place, sink: ReceiversProcess, port: int, key: str) -> float:
    """Messages a second from the first request to the last settlement."""
    apps = [app_id(number) for number in range(ENDPOINTS)]
    await _warm_up(sink, port, key, apps)
    before, sent, delivered = sink.requests, 0, 0

    def room() -> bool:
        nonlocal sent
        if sent - delivered >= UNDER_WAY:
            return False
        sent += 1
        return True

    async def watch() -> None:
        nonlocal delivered
        while delivered < MESSAGES:
            await asyncio.sleep(0.02)
            delivered = sink.requests - before

    started = perf_counter()
    watching = asyncio.create_task(watch())
    await post(port, key, apps, MESSAGES, room, CONNECTIONS)
    await watching
    async with Station(place.settings()) as station:
        await until_settled(station)
    return MESSAGES / (perf_counter() - started)


async def _warm_up(sink: ReceiversProcess, port: int, key: str, apps: Sequence[str]) -> None:
    """One message to each: how long a worker takes to start is not what is measured."""
    before = sink.requests
    await post(port, key, apps, len(apps))
    while sink.requests < before + len(apps):
        await asyncio.sleep(0.02)
