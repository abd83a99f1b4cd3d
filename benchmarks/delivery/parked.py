"""What a claim costs while others wait: a million parked deliveries of 10,000 endpoints, beside a thousand of 100.

Parked lanes are blocked, as behind open breakers. Twenty healthy lanes have work; a claim takes 100 of it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]

from benchmarks.delivery.world import Place, emptied, message, opened, run
from benchmarks.report import Bar, say, table
from hookfuse.app.station import open_store
from hookfuse.core.delivery import DeliveryState, Settlement
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.ports import DeliveryStore
from hookfuse.stores.sqlite import SqliteStore

SMALL = (100, 1_000)
LARGE = (10_000, 1_000_000)
HEALTHY = 20
CLAIMS = 60
TAKES = 100
TIMES = 1.5


def measure(places: Sequence[Place]) -> tuple[str, list[Bar]]:
    rows, bars = [], []
    for place in places:
        say(f"delivery: claims beside parked deliveries, {place.name}")
        small, large = run(_measure(place, *SMALL)), run(_measure(place, *LARGE))
        rows.append([place.name, f"{small * 1e6:,.0f}", f"{large * 1e6:,.0f}", f"{large / small:.2f}x"])
        claim = f"{place.name}: a claim beside {LARGE[1]:,} parked deliveries costs at most {TIMES:g} x"
        bars.append(Bar(claim, f"{large / small:.2f}x", large <= TIMES * small))
    head = [f"microseconds of a claim of {TAKES}", f"{SMALL[1]:,} parked", f"{LARGE[1]:,} parked", "ratio"]
    return table(head, rows), bars


async def _measure(place: Place, endpoints: int, parked: int) -> float:
    await emptied(place)
    async with opened(open_store(place.database)) as store:
        await store.add_application(Application("app_p", "parked"))
        await _park(place, store, endpoints, parked)
        for number in range(HEALTHY):
            await store.add_application(Application(f"app_{number}", "healthy"))
            await store.add_endpoint(Endpoint(f"ep_{number}", f"app_{number}", "https://example.com/", cap=TAKES))
        times = []
        for _ in range(CLAIMS):
            await store.accept([message(f"app_{number % HEALTHY}") for number in range(TAKES)])
            started = time.perf_counter()
            found = await store.claim(TAKES, lease_ms=60_000, failing_limit=TAKES)
            if len(found.claims) == TAKES:
                times.append(time.perf_counter() - started)
            await store.settle([Settlement(each, DeliveryState.SENT, "ok", healthy=True) for each in found.claims])
        return statistics.median(times)


async def _park(place: Place, store: DeliveryStore, endpoints: int, parked: int) -> None:
    """Written straight into the tables: the way there is not what is measured."""
    kind = "sqlite" if isinstance(store, SqliteStore) else "postgres"
    text = Path(__file__).with_name(f"parked_{kind}.sql").read_text()
    text = text.replace(":each", str(parked // endpoints)).replace(":n", str(endpoints))
    if isinstance(store, SqliteStore):
        await store._write(lambda db, now: db.execute(text).fetchall())
        return
    connection = await asyncpg.connect(place.database)
    try:
        await connection.execute(text)
        # What a million rows at once leave to be done later is not what is measured, either.
        await connection.execute("VACUUM ANALYZE")
        await connection.execute("CHECKPOINT")
    finally:
        await connection.close()
