"""Accepts a second: a hundred callers who share commits, beside one connection with one message in each commit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from statistics import median

from benchmarks.delivery.world import CALLERS, Place, emptied, message, opened, produce, run
from benchmarks.report import Bar, say, table
from hookfuse.app.station import open_store
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.delivery.accept import Acceptor

ALONE = 300
TOGETHER = 10_000
APPS = 100
TIMES = 10.0
ROUNDS = 5


def measure(places: Sequence[Place]) -> tuple[str, list[Bar]]:
    rows, bars = [], []
    for place in places:
        say(f"delivery: accepting, {place.name}")
        rounds = [run(_measure(place)) for _ in range(ROUNDS)]
        alone, together = map(median, zip(*rounds, strict=True))
        ratio = median(many / one for one, many in rounds)
        rows.append([place.name, f"{alone:,.0f}", f"{together:,.0f}", f"{ratio:.1f}x"])
        claim = f"{place.name}: {CALLERS} callers accept at least {TIMES:g} x one message per commit"
        bars.append(Bar(claim, f"{ratio:.1f}x", ratio >= TIMES))
    return table(["accepts a second", "one by one", f"{CALLERS} callers", "ratio"], rows), bars


async def _measure(place: Place) -> tuple[float, float]:
    await emptied(place)
    apps = [f"app_{number}" for number in range(APPS)]
    async with opened(open_store(place.database)) as store:
        for number, app_id in enumerate(apps):
            await store.add_application(Application(app_id, "bench"))
            await store.add_endpoint(Endpoint(f"ep_{number}", app_id, "https://example.com/"))
        await store.accept([message(app_id) for app_id in apps])
        started = time.perf_counter()
        for number in range(ALONE):
            await store.accept([message(apps[number % APPS])])
        alone = ALONE / (time.perf_counter() - started)
        started = time.perf_counter()
        await produce(Acceptor(store), apps, TOGETHER)
        return alone, TOGETHER / (time.perf_counter() - started)
