"""What is our own fault, or that of what we lean on: no descriptors, no Redis."""

from __future__ import annotations

import logging
import os
import resource
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hookfuse import Policy, Streak
from hookfuse.app.station import Station
from hookfuse.testing.receivers import Ok, Slow
from tests.faults.delivery.processes import StationProcess
from tests.faults.delivery.producer import Producer
from tests.faults.delivery.site import Site, counter, until, working
from tests.servers.proxy import Proxy

pytestmark = pytest.mark.anyio

WHOLE_WITHIN = 5.0
WAITS = 0.05
"""Seconds: half of the time that a call gives Redis."""
PUT_OFF = 9.0
"""Seconds in which a delivery that failed through our own fault is not tried again."""


async def test_f12_no_more_descriptors(site: Site) -> None:
    """Without descriptors deliveries wait, no attempt is spent and no breaker charged; with some again, all arrive.

    They wait long enough not to make the shortage worse.
    """
    first, more, once = 4, 20, {"delays": [], "jitter": 0}
    await site.alike(Slow(0.2), cap=site.sizes.slots, policy=Policy(trip=Streak(1)).to_dict(), retry=once)
    apis, workers = await site.fleet()
    producer = site.producer()
    await producer.send([each.ask for each in apis], first)
    await site.rest()
    await until(lambda: site.receivers.connections == 0)
    _, most = resource.prlimit(workers[0].pid, resource.RLIMIT_NOFILE)
    began = time.monotonic()
    for worker in workers:
        taken = len(os.listdir(f"/proc/{worker.pid}/fd"))
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (taken, most))
    await producer.send([each.ask for each in apis], more)
    await until(lambda: _all_tried(site))
    waits = await _waits(site)
    for worker in workers:
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (most, most))
    short_for = time.monotonic() - began
    await site.rest()
    assert waits, "some found no descriptor"
    assert min(waits) >= PUT_OFF
    assert await _most_local(site) <= 1 + int(short_for / PUT_OFF)
    troubles = await site.database.rows("SELECT DISTINCT trouble FROM {schema}attempts")
    assert {row[0] for row in troubles} == {"", "local"}
    await _check_nothing_is_charged(site, workers, (first + more) * len(site.names))
    report = await site.report(producer)
    assert report.sound, report


async def _check_nothing_is_charged(site: Site, workers: list[StationProcess], deliveries: int) -> None:
    ends = await site.database.rows("SELECT DISTINCT state, spent FROM {schema}deliveries")
    assert [tuple(row) for row in ends] == [("sent", 1)], "what was our fault spends no attempt"
    assert await site.database.rows("SELECT key, after FROM {schema}transitions") == []
    breakers = [breaker for worker in workers for breaker in await worker.breakers()]
    assert {(each["state"], each["failed"]) for each in breakers} == {("closed", 0)}
    assert sum(each["ok"] for each in breakers) == deliveries, "these are the breakers that were asked"


async def _all_tried(site: Site) -> bool:
    rows = await site.database.rows("SELECT count(*) FROM {schema}deliveries WHERE attempts = 0")
    return int(rows[0][0]) == 0


async def _waits(site: Site) -> list[float]:
    """For how many seconds each delivery waits that found no descriptor at its last attempt."""
    rows = await site.database.rows(
        "SELECT d.due_ms - max(a.at_ms) FROM {schema}deliveries AS d"
        " JOIN {schema}attempts AS a ON a.message_id = d.message_id AND a.endpoint_id = d.endpoint_id"
        " WHERE d.state = 'pending' AND d.reason = 'local' GROUP BY d.message_id, d.endpoint_id"
    )
    return [row[0] / 1000 for row in rows]


async def _most_local(site: Site) -> int:
    """How often the same delivery found no descriptor, at most."""
    rows = await site.database.rows(
        "SELECT count(*) FROM {schema}attempts WHERE trouble = 'local' GROUP BY message_id, endpoint_id"
    )
    return max(int(row[0]) for row in rows)


async def test_r1_redis_dies_and_comes_back(
    site: Site, proxy: Proxy, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Without Redis, at the start or later, all is taken and sent, it is said aloud, and soon after it is whole."""
    site.redis = url
    await site.endpoints({"ep_1": Ok()}, cap=8)
    producer = site.producer()
    proxy.down()
    async with site.station() as station, working(station.worker):
        for _ in range(2):
            await producer.send([counter(station)], site.sizes.messages)
            await site.rest()
            assert station.breakers.degraded
            proxy.heal()
            took = await until(lambda: _is_whole(station))
            assert took < WHOLE_WITHIN
            await producer.send([counter(station)], 10)
            proxy.down()
            await site.rest()
        proxy.heal()
    assert producer.unavailable == 0
    assert [record for record in caplog.records if record.levelno == logging.WARNING and "Redis" in record.message]
    report = await site.report(producer)
    assert report.sound, report


async def _is_whole(station: Station) -> bool:
    await station.breakers.admit("app_1/another")
    return not station.breakers.degraded


@pytest.mark.parametrize("fault", ["silent", "slow"])
async def test_r2_redis_does_not_answer(site: Site, proxy: Proxy, url: str, fault: str) -> None:
    """A Redis that is silent or slow costs no message; after a second hardly a call to a breaker waits for it."""
    site.redis = url
    await site.endpoints({"ep_1": Ok()}, cap=8)
    producer = site.producer()
    async with site.station() as station, working(station.worker):
        await _pace(site, station, producer)
        before = await _pace(site, station, producer)
        if fault == "silent":
            proxy.timeout()
        else:
            proxy.latency(0.2)
        began = time.monotonic()
        while time.monotonic() - began < 1:
            await _pace(site, station, producer)
        took = _time_calls(station)
        after = await _pace(site, station, producer)
        proxy.heal()
    waited = sum(each > WAITS for each in took)
    print(f"{before:.0f} a second, {after:.0f} with Redis {fault}; {waited} of {len(took)} calls waited")  # noqa: T201
    assert producer.unavailable == 0
    assert len(took) >= 2 * site.sizes.messages
    assert waited <= len(took) * 0.05
    if site.sizes.steady:
        assert after >= 0.8 * before
    report = await site.report(producer)
    assert report.sound, report


def _time_calls(station: Station) -> list[float]:
    """From now on: how long each question to a breaker, and each report, takes."""
    took: list[float] = []

    def timed(call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def calling(*args: Any, **kwargs: Any) -> Any:
            began = time.monotonic()
            try:
                return await call(*args, **kwargs)
            finally:
                took.append(time.monotonic() - began)

        return calling

    for verb in ("admit", "record"):
        setattr(station.breakers, verb, timed(getattr(station.breakers, verb)))
    return took


async def _pace(site: Site, station: Station, producer: Producer) -> float:
    """Messages a second, accepted and sent."""
    began = time.monotonic()
    await producer.send([counter(station)], site.sizes.messages)
    await site.rest()
    return site.sizes.messages / (time.monotonic() - began)
