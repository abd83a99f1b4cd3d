"""Remembers the last hour of a process: rates, latencies, breakers that opened and closed.

Every number comes from where `/readyz` and `/metrics` have it, so they never differ. Counters are kept as they were
every ten seconds, and a rate is the difference of two of them: nothing is counted twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Self

from hookfuse.api.overview_models import BreakerCountsOut, OverviewOut, SeriesOut, WorkerOut
from hookfuse.app.health import Health
from hookfuse.app.metrics import Counted, Metrics
from hookfuse.app.station import Station
from hookfuse.core.condition import Census
from hookfuse.core.state import State, Transition
from hookfuse.errors import HookfuseError

STEP = 10.0
_KEPT = 360
_RATES_OVER = 300.0
_SHORTEST = 2.0
_NEVER_ASKED = Census(0, None)


@dataclass(frozen=True, slots=True)
class Sample:
    """All that was counted so far, at an instant."""

    at: float
    counted: Counted
    opened: int
    closed: int
    held: int


@dataclass(frozen=True, slots=True)
class Difference:
    """What happened between two samples."""

    seconds: float
    sent: int
    ok: int
    failed: int
    p50: float | None
    p95: float | None
    opened: int
    closed: int


class Watcher:
    def __init__(self, station: Station, health: Health, metrics: Metrics) -> None:
        self._station = station
        self._health = health
        self._metrics = metrics
        self._opened = 0
        self._closed = 0
        self._samples: deque[Sample] = deque([self._sample(0)], maxlen=_KEPT)
        self._subscription = station.breakers.subscribe(self._heard)
        self._sampling: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._sampling = asyncio.create_task(self._keep_sampling(), name="hookfuse-watch")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._sampling is not None
        self._sampling.cancel()
        self._subscription.close()

    async def overview(self) -> OverviewOut:
        said, read, census = await self._health.readiness(), await self._health.readings(), await self._census()
        backlog, states = read.backlog, read.breakers
        now = self._sample(0 if backlog is None else backlog.held)
        lately, hour = self._since(now, _RATES_OVER), difference(self._samples[0], now)
        sick = {state: states.get(state, 0) for state in (State.OPEN, State.HALF_OPEN, State.DISABLED)}
        return OverviewOut(
            at=_instant(now.at),
            version=version("hookfuse"),
            ready=said.ready,
            database=said.database,
            migrations=said.migrations,
            breakers=said.breakers,
            egress=said.egress,
            degraded=not said.ready or read.degraded or read.suspect,
            alerts=said.alerts,
            endpoints=census.endpoints,
            states=BreakerCountsOut(
                closed=max(0, census.endpoints - sum(sick.values())),
                open=sick[State.OPEN],
                half_open=sick[State.HALF_OPEN],
                disabled=sick[State.DISABLED],
            ),
            conditions={},
            waiting=0 if backlog is None else backlog.waiting,
            held=now.held,
            in_flight=0 if backlog is None else backlog.in_flight,
            lag_seconds=0.0 if backlog is None else backlog.lag,
            oldest_due=_past(census.oldest_due_ms, now.at),
            span_seconds=lately.seconds,
            sent_per_second=_rate(lately.sent, lately.seconds) if read.slots else None,
            success_share=lately.ok / (lately.ok + lately.failed) if lately.ok + lately.failed else None,
            p50_seconds=lately.p50,
            p95_seconds=lately.p95,
            opened=hour.opened,
            closed=hour.closed,
            worker=WorkerOut(name=self._station.name, in_hand=read.in_hand, slots=read.slots),
        )

    async def series(self) -> SeriesOut:
        samples = list(self._samples)
        now = self._sample(await self._held())
        # A shorter step would be all noise.
        if now.at - samples[-1].at >= _SHORTEST:
            samples.append(now)
        later = samples[1:]
        steps = [difference(before, after) for before, after in zip(samples, later, strict=False)]
        return SeriesOut(
            at=[_instant(each.at) for each in later],
            sent_per_second=[_rate(step.sent, step.seconds) for step in steps],
            failed_per_second=[_rate(step.failed, step.seconds) for step in steps],
            p50_seconds=[step.p50 for step in steps],
            p95_seconds=[step.p95 for step in steps],
            opened=[step.opened for step in steps],
            closed=[step.closed for step in steps],
            held=[each.held for each in later],
        )

    async def _keep_sampling(self) -> None:
        while True:
            await asyncio.sleep(STEP)
            self._samples.append(self._sample(await self._held()))

    def _heard(self, made: Transition) -> None:
        if made.before is made.after:
            return
        if made.after is State.CLOSED:
            self._closed += 1
        elif made.after is not State.HALF_OPEN:
            self._opened += 1

    def _sample(self, held: int) -> Sample:
        return Sample(time.time(), self._metrics.counted(), self._opened, self._closed, held)

    def _since(self, now: Sample, seconds: float) -> Difference:
        first = next((each for each in self._samples if now.at - each.at <= seconds), now)
        return difference(first, now)

    async def _held(self) -> int:
        return (await self._health.readiness()).held or 0

    async def _census(self) -> Census:
        try:
            return await self._station.store.census()
        except HookfuseError:
            # Readiness says what is the matter.
            return _NEVER_ASKED


def difference(before: Sample, after: Sample) -> Difference:
    old, new = before.counted, after.counted
    # Several processes have no buckets before their first attempt.
    earlier = dict(old.seconds)
    buckets = [(limit, count - earlier.get(limit, 0)) for limit, count in new.seconds]
    return Difference(
        after.at - before.at,
        new.sent - old.sent,
        new.ok - old.ok,
        new.failed - old.failed,
        quantile(buckets, 0.5),
        quantile(buckets, 0.95),
        after.opened - before.opened,
        after.closed - before.closed,
    )


def quantile(buckets: Sequence[tuple[float, int]], share: float) -> float | None:
    """Estimated from a histogram (upper limits, counts up to each) as Prometheus does; None without any value."""
    total = buckets[-1][1] if buckets else 0
    if total <= 0:
        return None
    wanted = share * total
    low, below = 0.0, 0
    for limit, count in buckets:
        if count >= wanted:
            # Beyond the last limit nothing is known but that it was passed.
            return low if limit == float("inf") else low + (limit - low) * (wanted - below) / (count - below)
        low, below = limit, count
    return low


def _rate(number: int, seconds: float) -> float:
    return number / seconds if seconds > 0 else 0.0


def _past(at_ms: int | None, now: float) -> datetime | None:
    return None if at_ms is None or at_ms / 1000 > now else _instant(at_ms / 1000)


def _instant(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
