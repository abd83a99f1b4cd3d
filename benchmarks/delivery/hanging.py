"""Half of the endpoints hang: what is left for the healthy ones, beside the same load with all of them healthy.

Messages come at a steady rate to every endpoint, below what the machine can do. The sink writes down when each arrives,
so the time from accept to arrival is known for every message of the healthy half. That half has a sink of its own:
what is measured is how long we keep its messages, and not how long a sink is busy with connections that hang.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.delivery.flow import start_worker
from benchmarks.delivery.world import Place, app_id, emptied, message, run, settle_in
from benchmarks.report import Bar, say, table
from hookfuse.app.station import Station
from hookfuse.testing.receivers import Hang, Ok, Order, ReceiversProcess

ENDPOINTS = 100
RATE = 1_000
SECONDS = 6
ROUNDS = 9
TIMEOUT_MS = 2_000
THROUGHPUT = 0.9
P99 = 1.2


@dataclass(frozen=True)
class Healthy:
    """What arrived at the healthy half: how many a second, and the slowest hundredth of the delays, in seconds."""

    rate: float
    p99: float


def measure(places: Sequence[Place]) -> tuple[str, list[Bar]]:
    rows, bars = [], []
    for place in places:
        say(f"delivery: half of the endpoints hang, {place.name}")
        # In turns, and the middle one of each: one pause of the disk is the p99 of a whole round.
        rounds = [(_measure(place, hang=False), _measure(place, hang=True)) for _ in range(ROUNDS)]
        well, half = (sorted(side, key=lambda each: each.p99)[ROUNDS // 2] for side in zip(*rounds, strict=True))
        rate, late = half.rate / well.rate, half.p99 / well.p99
        rows.append(
            [place.name, f"{well.rate:,.0f}", f"{half.rate:,.0f}", f"{well.p99 * 1e3:.0f}", f"{half.p99 * 1e3:.0f}"]
        )
        bars.append(
            Bar(f"{place.name}: healthy throughput at least {THROUGHPUT:g} x", f"{rate:.2f}x", rate >= THROUGHPUT)
        )
        bars.append(Bar(f"{place.name}: healthy p99 at most {P99:g} x", f"{late:.2f}x", late <= P99))
    head = ["healthy half, deliveries a second and p99 in ms", "all well", "half hangs", "all well", "half hangs"]
    return table(head, rows), bars


def _measure(place: Place, *, hang: bool) -> Healthy:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / "arrived.jsonl"
        with ReceiversProcess(ledger=ledger) as sink, ReceiversProcess() as other:
            numbers = range(ENDPOINTS // 2)
            healthy = sink.add_all({f"e{number}": Order(Ok()) for number in numbers}).values()
            half = other.add_all({f"e{number}": Order(Hang() if hang else Ok()) for number in numbers}).values()
            urls = [url for pair in zip(healthy, half, strict=True) for url in pair]
            accepted = run(_feed(place, urls, lambda: sink.requests + other.requests))
        arrived = {row["webhook_id"]: row["arrived_at"] for row in map(json.loads, ledger.read_text().splitlines())}
    delays = sorted(arrived[id_] - at for id_, at in accepted.items() if id_ in arrived)
    return Healthy(len(delays) / SECONDS, delays[int(len(delays) * 0.99)])


async def _feed(place: Place, urls: Sequence[str], requests: Callable[[], int]) -> dict[str, float]:
    """Returns when each message to the healthy half was accepted."""
    await emptied(place)
    accepted: dict[str, float] = {}
    async with Station(place.settings(grace=1)) as station:
        await settle_in(station, urls, timeout_ms=TIMEOUT_MS)
        helper = None if place.redis is None else start_worker(place)
        working = asyncio.create_task(station.worker.run()) if helper is None else None
        try:
            # A worker that has just begun is still finding its way: every endpoint has heard from it once, then.
            await asyncio.gather(*(station.acceptor.accept(message(app_id(number))) for number in range(ENDPOINTS)))
            while requests() < ENDPOINTS:
                await asyncio.sleep(0.02)
            # What the healthy half has answered is written down by then.
            await asyncio.sleep(0.5)
            started = time.time()
            for tick in range(SECONDS * 100):
                batch = [(number, message(app_id(number))) for number in range(tick % 10, ENDPOINTS, 10)]
                await asyncio.gather(*(station.acceptor.accept(each) for _, each in batch))
                now = time.time()
                accepted.update({each.id: now for number, each in batch if number % 2 == 0})
                await asyncio.sleep(max(0, started + (tick + 1) / 100 - time.time()))
            await asyncio.sleep(1)
        finally:
            station.worker.stop()
            if working is not None:
                await working
            if helper is not None:
                helper.terminate()
                helper.wait()
    return accepted
