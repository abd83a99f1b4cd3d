"""Half of the endpoints hang: what is left for the healthy ones, beside the same load with all of them healthy.

Two loads. At a steady rate, below what the machine can do, a delay is what we keep a message for. With as many messages
as callers can hand in there is always something that waits, and the rate shows what those that hang take away.

The sink writes down when each message arrives, so the time from accept to arrival is known for every one of the healthy
half. That half has a sink of its own: what is measured is how long we keep its messages, and not how long a sink is
busy with connections that hang. A message that does not arrive is late without end.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from benchmarks.delivery.flow import CALLERS, MESSAGES, start_worker
from benchmarks.delivery.world import Place, app_id, emptied, message, run, settle_in
from benchmarks.report import Bar, say, table
from hookfuse.app.station import Station
from hookfuse.delivery.accept import Acceptor
from hookfuse.testing.receivers import Hang, Ok, Order, ReceiversProcess

ENDPOINTS = 100
RATE = 1_000
SECONDS = 6
ROUNDS = 9
FULL_ROUNDS = 5
TIMEOUT_MS = 2_000
PATIENCE = 30.0
THROUGHPUT = 0.9
P99 = 1.2

Feed: TypeAlias = Callable[[Acceptor], Coroutine[Any, Any, dict[str, float]]]
"""Hands messages in; returns when each of those to the healthy half was accepted."""


@dataclass(frozen=True)
class Healthy:
    """What arrived at the healthy half: how many a second, and the slowest hundredth of the delays, in seconds."""

    rate: float
    p99: float


def measure(places: Sequence[Place]) -> tuple[str, list[Bar]]:
    rows, bars = [], []
    for place in places:
        for load, feed, rounds in (("steady", _steadily, ROUNDS), ("full", _as_callers_can, FULL_ROUNDS)):
            say(f"delivery: half of the endpoints hang, {place.name}, {load} load")
            name = f"{place.name}, {load} load"
            # In turns, and each compared with its own: one pause of the disk is the p99 of a whole round.
            pairs = [(_measure(place, feed, hang=False), _measure(place, feed, hang=True)) for _ in range(rounds)]
            rate = median(half.rate / well.rate for well, half in pairs)
            late = median(half.p99 / well.p99 for well, half in pairs)
            sides = list(zip(*pairs, strict=True))
            rates = [f"{median(each.rate for each in side):,.0f}" for side in sides]
            p99s = [f"{median(each.p99 for each in side) * 1e3:,.1f}" for side in sides]
            rows.append([name, *rates, *p99s])
            bars.append(
                Bar(f"{name}: healthy throughput at least {THROUGHPUT:g} x", f"{rate:.2f}x", rate >= THROUGHPUT)
            )
            bars.append(Bar(f"{name}: healthy p99 at most {P99:g} x", f"{late:.2f}x", late <= P99))
    head = ["healthy half, deliveries a second and p99 in ms", "all well", "half hangs", "all well", "half hangs"]
    return table(head, rows), bars


def _measure(place: Place, feed: Feed, *, hang: bool) -> Healthy:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "arrived.jsonl"
        with ReceiversProcess(ledger=ledger) as sink, ReceiversProcess() as other:
            numbers = range(ENDPOINTS // 2)
            healthy = sink.add_all({f"e{number}": Order(Ok()) for number in numbers}).values()
            half = other.add_all({f"e{number}": Order(Hang() if hang else Ok()) for number in numbers}).values()
            urls = [url for pair in zip(healthy, half, strict=True) for url in pair]
            accepted = run(_under_way(place, urls, feed, sink, other))
        arrived = {row["webhook_id"]: row["arrived_at"] for row in map(json.loads, ledger.read_text().splitlines())}
    delays = sorted(arrived.get(id_, inf) - at for id_, at in accepted.items())
    took = max(arrived.get(id_, inf) for id_ in accepted) - min(accepted.values())
    return Healthy(len(delays) / took, delays[int(len(delays) * 0.99)])


async def _under_way(
    place: Place, urls: Sequence[str], feed: Feed, sink: ReceiversProcess, other: ReceiversProcess
) -> dict[str, float]:
    """Feed a station that has been at work for a moment."""
    await emptied(place)
    async with Station(place.settings(grace=1)) as station:
        await settle_in(station, urls, timeout_ms=TIMEOUT_MS)
        helper = None if place.redis is None else start_worker(place)
        working = asyncio.create_task(station.worker.run()) if helper is None else None
        try:
            # A worker that has just begun is still finding its way: every endpoint has heard from it once, then.
            await asyncio.gather(*(station.acceptor.accept(message(app_id(number))) for number in range(ENDPOINTS)))
            while sink.requests + other.requests < ENDPOINTS:
                await asyncio.sleep(0.02)
            # What the healthy half has answered is written down by then.
            await asyncio.sleep(0.5)
            wanted, accepted = sink.requests, await feed(station.acceptor)
            wanted += len(accepted)
            patience_until = time.monotonic() + PATIENCE
            while sink.requests < wanted and time.monotonic() < patience_until:
                await asyncio.sleep(0.02)
            return accepted
        finally:
            station.worker.stop()
            if working is not None:
                await working
            if helper is not None:
                helper.terminate()
                helper.wait()


async def _steadily(acceptor: Acceptor) -> dict[str, float]:
    accepted: dict[str, float] = {}
    started = time.time()
    for tick in range(SECONDS * 100):
        batch = [(number, message(app_id(number))) for number in range(tick % 10, ENDPOINTS, 10)]
        await asyncio.gather(*(acceptor.accept(each) for _, each in batch))
        now = time.time()
        accepted.update({each.id: now for number, each in batch if number % 2 == 0})
        await asyncio.sleep(max(0, started + (tick + 1) / 100 - time.time()))
    return accepted


async def _as_callers_can(acceptor: Acceptor) -> dict[str, float]:
    """As many callers as there are where nobody hangs, each with its next message after the answer to the last."""
    accepted: dict[str, float] = {}
    numbers = iter(range(MESSAGES))

    async def call() -> None:
        for number in numbers:
            each = message(app_id(number % ENDPOINTS))
            await acceptor.accept(each)
            if number % 2 == 0:
                accepted[each.id] = time.time()

    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return accepted
