"""Processes that are asked to end, or stand still for a while."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter

import pytest

from hookfuse.testing.receivers import Hang, Ok, Slow
from tests.faults.delivery.databases import leases
from tests.faults.delivery.processes import freeze
from tests.faults.delivery.site import Site, until

pytestmark = pytest.mark.anyio

MOMENT = 0.15
"""Seconds that a request may already be on its way when its worker is told to stop."""


@pytest.mark.parametrize("hanging", [False, True], ids=["well", "hanging"])
async def test_f4_asked_to_end_under_load(site: Site, hanging: bool) -> None:
    """A worker that is asked to end claims no more, finishes or gives back what it has, and ends within its grace."""
    behaviours = {f"ep_{number}": Slow(0.1) for number in range(site.sizes.endpoints)}
    await site.endpoints({**behaviours, "ep_last": Hang() if hanging else Ok()}, cap=site.sizes.slots)
    apis, workers = await site.fleet(grace=site.sizes.deadline / 2)
    producer = site.producer()
    await producer.send([each.ask for each in apis], site.sizes.messages // 2)
    await until(lambda: sum(each.in_flight for each in site.receivers.counts.values()) > 2)
    for worker in workers:
        worker.signal(signal.SIGTERM)
    asked, asked_at = time.monotonic(), time.time()
    codes = await asyncio.gather(*(worker.ended(site.sizes.deadline + 5) for worker in workers))
    took = time.monotonic() - asked
    assert set(codes) == {0}
    assert took <= site.sizes.deadline / 2 + 1, f"it took {took:.2f} s"
    assert await leases(site.database) == {}, "nothing is left in the hands of who is gone"
    assert [each for each in site.receipts() if each.arrived_at > asked_at + MOMENT] == []
    if hanging:
        site.receivers.change("ep_last", Ok())
    await asyncio.gather(*(worker.start() for worker in workers))
    await site.rest()
    report = await site.report(producer)
    assert report.sound, report


async def test_f6_stopped_beyond_its_lease(site: Site) -> None:
    """A worker that stood still beyond its lease settles nothing that others have taken over, and it is counted."""
    await site.endpoints({"ep_1": Slow(site.sizes.deadline / 2)}, cap=4)
    apis, workers = await site.fleet()
    victim = workers[0]
    for other in workers[1:]:
        await other.kill()
    producer = site.producer()
    await producer.send([each.ask for each in apis], 1)
    await until(lambda: site.receivers.counts["ep_1"].in_flight > 0)
    await freeze(victim)
    for other in workers[1:]:
        await other.start()
    (end,) = (await leases(site.database)).values()
    if site.database.shared:
        await until(lambda: site.receivers.counts["ep_1"].requests == 2)
        await site.rest()
    else:
        await until(lambda: time.time() > end)
    victim.signal(signal.SIGCONT)
    if site.database.shared:
        await until(lambda: any(event["event"] == "lost" for event in victim.events()))
    await site.rest()
    seen = Counter(receipt.webhook_id for receipt in site.receipts())
    assert max(seen.values()) <= 2
    report = await site.report(producer, duplicates=1)
    assert report.sound, report
