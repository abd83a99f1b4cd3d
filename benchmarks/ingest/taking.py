"""Messages a second that are committed before they are answered, beside a FastAPI handler that stores nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchmarks.delivery.world import Place, app_id, emptied, run, settle_in
from benchmarks.ingest.load import CONNECTIONS, Taken, post
from benchmarks.report import Bar, say, table
from hookfuse.app.station import Station
from tests.servers.ports import free_port

APPS = 100
MESSAGES = 12_000
ROUNDS = 3
LEAST = 0.7

_FLOOR = "FastAPI, nothing stored"


def measure(places: Sequence[Place]) -> tuple[str, list[Bar]]:
    best: dict[str, Taken] = {}
    for turn in range(ROUNDS):
        say(f"ingest, round {turn + 1} of {ROUNDS}")
        with _bare() as port:
            _keep_best(best, _FLOOR, run(post(port, "none", ["app_1"], MESSAGES)))
        for place in places:
            with api(place, ["https://example.com/"] * APPS) as (port, key):
                _keep_best(best, place.name, run(post(port, key, [app_id(number) for number in range(APPS)], MESSAGES)))
    floor = best[_FLOOR].rate
    rows = [
        [
            name,
            f"{taken.rate:,.0f}",
            f"{taken.rate / floor:.2f}x",
            f"{taken.percentile(0.5):.1f}",
            f"{taken.percentile(0.99):.1f}",
        ]
        for name, taken in best.items()
    ]
    bars = []
    for place in places:
        ratio = best[place.name].rate / floor
        claim = f"{place.name}: one API process takes at least {LEAST:g} x the messages of {_FLOOR}"
        bars.append(Bar(claim, f"{ratio:.2f}x", ratio >= LEAST))
    head = [f"messages a second, {CONNECTIONS} connections", "rate", "of FastAPI", "p50 ms", "p99 ms"]
    return table(head, rows), bars


@contextmanager
def api(place: Place, urls: Sequence[str]) -> Iterator[tuple[int, str]]:
    """An API process over an empty place with an application and an endpoint for each URL; its port and a key."""
    run(emptied(place))
    run(_furnish(place, urls))
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.ingest.server", place.database, str(place.key_file), str(port)]
    process = subprocess.Popen([*command, *filter(None, [place.redis])], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield port, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


async def _furnish(place: Place, urls: Sequence[str]) -> None:
    async with Station(place.settings()) as station:
        await settle_in(station, urls)


@contextmanager
def _bare() -> Iterator[int]:
    port = free_port()
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.ingest.bare", str(port)])
    try:
        _await_port(port)
        yield port
    finally:
        process.terminate()
        process.wait()


def _await_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _keep_best(best: dict[str, Taken], name: str, taken: Taken) -> None:
    if name not in best or best[name].rate < taken.rate:
        best[name] = taken
