"""One sample of a big fleet on Postgres and Redis: 10,000 endpoints with traffic, a million attempts in the window.

Measured at the policy's defaults, with fewer endpoints, and with a day of older tallies behind the window. Every
sample trips a hundred endpoints too, so that its scripts have something to write.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path

import asyncpg  # type: ignore[import-untyped]
import redis

from benchmarks.delivery.world import Place, emptied, places, run
from benchmarks.report import Bar, say, table
from hookfuse import profiles
from hookfuse.app.station import Station, StationSettings
from hookfuse.core.tally import SLOT_MS
from hookfuse.delivery.targets import Defaults

ENDPOINTS = 10_000
ATTEMPTS = 1_000_000
SAMPLES = 7
MOST = 0.02
POLICY = profiles.sampled()

_SLOTS = POLICY.window_ms // SLOT_MS
_OLD_SLOTS = 200
_FAILING = 100
_TICK = os.sysconf("SC_CLK_TCK")

_FILL = """
TRUNCATE hookfuse.tallies;
INSERT INTO hookfuse.applications (id, name, created_ms, updated_ms)
SELECT 'app_' || a, 'x', 0, 0 FROM generate_series(0, 999) AS a ON CONFLICT DO NOTHING;
INSERT INTO hookfuse.endpoints (id, app_id, url, cap, timeout_ms, created_ms, updated_ms)
SELECT 'ep_' || e, 'app_' || e % 1000, 'https://example.com', 32, 15000, 0, 0
FROM generate_series(1, {endpoints}) AS e ON CONFLICT DO NOTHING;
INSERT INTO hookfuse.endpoints (id, app_id, url, cap, timeout_ms, policy, created_ms, updated_ms)
VALUES ('ep_long', 'app_0', 'https://example.com', 32, 15000, '{{"window": 86400, "evaluate": "sampled"}}', 0, 0)
ON CONFLICT DO NOTHING;
INSERT INTO hookfuse.tallies (slot_ms, endpoint_id, ok, failed, slow, latency_ms)
SELECT ((SELECT hookfuse.now_ms()) / {slot} - slot) * {slot}, 'ep_' || e,
       CASE WHEN e > {failing} THEN {each} ELSE 0 END, CASE WHEN e > {failing} THEN 0 ELSE {each} END, 0, {each} * 100
FROM generate_series(0, {slots} - 1) AS slot, generate_series(1, {endpoints}) AS e;
VACUUM ANALYZE hookfuse.tallies;
"""


def measure() -> tuple[str, list[Bar]]:
    say("sampling: the cost of a sample")
    with places() as known:
        (place,) = [each for each in known if each.redis is not None]
        few = run(_cost(place, ENDPOINTS // 10, 0))
        many = run(_cost(place, ENDPOINTS, 0))
        old = run(_cost(place, ENDPOINTS, _OLD_SLOTS))
    every = 30.0
    rows = [
        [f"{ENDPOINTS // 10:,} endpoints", "-", f"{few * 1000:.0f} ms", f"{few / every:.2%}"],
        [f"{ENDPOINTS:,} endpoints", "-", f"{many * 1000:.0f} ms", f"{many / every:.2%}"],
        [f"{ENDPOINTS:,} endpoints", f"{ENDPOINTS * _OLD_SLOTS:,} rows", f"{old * 1000:.0f} ms", f"{old / every:.2%}"],
    ]
    head = ["with traffic in the window", "older tallies", "CPU of a sample", f"of a core, every {every:g} s"]
    worst = max(many, old) / every
    return table(head, rows), [
        Bar(f"a sample of {ENDPOINTS:,} endpoints takes at most {MOST:.0%} of a core", f"{worst:.2%}", worst <= MOST),
        Bar("it does not grow with history", f"{old / many:.2f} x", old <= many * 1.5),
    ]


async def _cost(place: Place, endpoints: int, old_slots: int) -> float:
    """CPU seconds of one sample, over all who take part; the first, which reads every policy, is left out."""
    assert place.redis is not None
    await emptied(place)
    settings = StationSettings(place.database, place.key_file, place.redis, defaults=Defaults(policy=POLICY))
    async with Station(settings) as station:
        connection = await asyncpg.connect(place.database)
        client = redis.Redis.from_url(place.redis)
        try:
            took = []
            await _fill(connection, endpoints, old_slots)
            for _ in range(SAMPLES + 1):
                _forget_breakers(client)
                await station.breakers.catch_up()
                before = await _cpu(connection, client)
                await station.sampler.sample()
                took.append(await _cpu(connection, client) - before)
        finally:
            await connection.close()
            client.close()
    return statistics.median(took[1:])


async def _fill(connection: asyncpg.Connection, endpoints: int, old_slots: int) -> None:
    each = ATTEMPTS // ENDPOINTS // _SLOTS
    slots = _SLOTS + old_slots
    text = _FILL.format(endpoints=endpoints, slot=SLOT_MS, slots=slots, each=each + 1, failing=_FAILING)
    for statement in text.strip().split(";\n"):
        await connection.execute(statement.rstrip(";"), timeout=300)


def _forget_breakers(client: redis.Redis) -> None:
    """So that the next sample trips them again."""
    for pattern in ("*:b:*", "*:index"):
        for name in client.scan_iter(f"hookfuse:v1:{pattern}", count=1_000):
            client.delete(name)


async def _cpu(connection: asyncpg.Connection, client: redis.Redis) -> float:
    """CPU seconds so far of this process, of every process of Postgres, and of Redis."""
    info = client.info("cpu")
    pids = [row[0] for row in await connection.fetch("SELECT pid FROM pg_stat_activity")]
    shared = sum(_of_process(pid) for pid in pids if pid != connection.get_server_pid())
    return time.process_time() + shared + float(info["used_cpu_user"]) + float(info["used_cpu_sys"])


def _of_process(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICK
