"""A day of 600,000 messages, a tenth of them to 50 endpoints that are dead: failed attempts, and healthy deliveries.

Without a breaker every message to a dead endpoint goes through its retry schedule. With the sampled policy at its
defaults the endpoint's lane waits while the breaker is open, its probes carry the message at the head of the lane, and
ten trips in a row disable it.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from dataclasses import dataclass, field

from benchmarks.report import Bar, progress, say, table
from benchmarks.sampling.world import DAY, STEP, World, world
from hookfuse import Outcome, profiles
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.state import State

MESSAGES = 600_000
DEAD, HEALTHY = 50, 450
DEAD_SHARE = 0.1
FEWER = 0.95
LATENCY_MS = 120
FOREVER = float("inf")

_PER_STEP = MESSAGES * STEP / DAY


@dataclass
class Day:
    """What came of it."""

    failed: int = 0
    sent: int = 0
    refused: int = 0
    """Of healthy endpoints."""
    disabled: int = 0


@dataclass
class Lane:
    """What waits for a dead endpoint: when it is due, and how often it was tried."""

    waiting: list[tuple[float, int]] = field(default_factory=list)
    blocked_until: float = 0.0

    @property
    def stopped(self) -> bool:
        return self.blocked_until == FOREVER


def measure() -> tuple[str, list[Bar]]:
    say("sampling: a day of zombie endpoints")
    plain, guarded = asyncio.run(_day(breaker=False)), asyncio.run(_day(breaker=True))
    fewer = 1 - guarded.failed / plain.failed
    rows = [
        ["without a breaker", f"{plain.failed:,}", f"{plain.sent:,}", "-", "-"],
        ["sampled", f"{guarded.failed:,}", f"{guarded.sent:,}", f"{guarded.refused:,}", f"{guarded.disabled}"],
    ]
    head = [f"{MESSAGES:,} messages, {DEAD} dead endpoints", "failed", "sent", "refused healthy", "disabled"]
    untouched = guarded.sent == plain.sent and guarded.refused == 0
    return table(head, rows), [
        Bar(f"failed attempts fall by at least {FEWER:.0%}", f"{fewer:.2%}", fewer >= FEWER),
        Bar("healthy deliveries are untouched", f"{guarded.refused} refused", untouched),
    ]


async def _day(*, breaker: bool) -> Day:
    draws, schedule = random.Random(7), RetrySchedule()
    dead, healthy = [f"dead_{n}" for n in range(DEAD)], [f"ok_{n}" for n in range(HEALTHY)]
    lanes = {name: Lane() for name in dead}
    day, due, alive = Day(), 0.0, 0.0
    async with world(profiles.sampled()) as found:
        await found.endpoints([*dead, *healthy])
        for step in range(DAY // STEP):
            counted: dict[str, tuple[int, int, int]] = {}
            due += _PER_STEP * DEAD_SHARE
            while due >= 1:
                due -= 1
                heapq.heappush(lanes[draws.choice(dead)].waiting, (found.clock.now(), 0))
            for name, lane in lanes.items():
                failed = await _try(found, name, lane, schedule, draws, breaker=breaker)
                day.failed += failed
                day.disabled += failed > 0 and lane.stopped
                counted[name] = (0, failed, failed * LATENCY_MS)
            alive += _PER_STEP * (1 - DEAD_SHARE)
            await _serve(found, healthy, int(alive), draws, day, counted, breaker=breaker)
            alive -= int(alive)
            if breaker:
                await found.settle({name: counts for name, counts in counted.items() if any(counts)})
            found.clock.advance(STEP)
            if breaker and step % 3 == 2:
                await found.sample()
            if step % 864 == 863:
                progress("a day of zombies", step + 1, DAY // STEP)
    return day


async def _try(
    found: World, name: str, lane: Lane, schedule: RetrySchedule, draws: random.Random, *, breaker: bool
) -> int:
    """Send what is due, as a worker would; returns how often it failed."""
    failed, now = 0, found.clock.now()
    while lane.waiting and lane.waiting[0][0] <= now and lane.blocked_until <= now:
        admission = None
        if breaker:
            admission = await found.breakers.admit(found.key(name))
            if not admission.allowed:
                lane.blocked_until = now + (admission.retry_after or STEP)
                break
        _, attempts = heapq.heappop(lane.waiting)
        failed += 1
        if admission is not None:
            made = await found.breakers.record(admission, Outcome.FAILURE, latency=LATENCY_MS / 1000)
            if made is not None and made.after is State.DISABLED:
                # Its lane is never claimed again; what comes for it is stored.
                lane.blocked_until = FOREVER
        delay_ms = schedule.delay_ms(attempts + 1, draws.random())
        if delay_ms is not None:
            heapq.heappush(lane.waiting, (now + delay_ms / 1000, attempts + 1))
    return failed


async def _serve(
    found: World,
    healthy: list[str],
    messages: int,
    draws: random.Random,
    day: Day,
    counted: dict[str, tuple[int, int, int]],
    *,
    breaker: bool,
) -> None:
    for name in draws.choices(healthy, k=messages):
        if breaker:
            admission = await found.breakers.admit(found.key(name))
            if not admission.allowed:
                day.refused += 1
                continue
            await found.breakers.record(admission, Outcome.OK, latency=LATENCY_MS / 1000)
        day.sent += 1
        ok, failed, latency_ms = counted.get(name, (0, 0, 0))
        counted[name] = (ok + 1, failed, latency_ms + LATENCY_MS)
