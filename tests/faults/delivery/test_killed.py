"""Processes that end without a word, at the worst moments."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import defaultdict
from collections.abc import Iterable
from math import inf

import pytest

from hookfuse.testing.receivers import Ok, Receipt, Slow
from tests.faults.delivery.databases import SqliteDatabase, leases, messages, slow_down_commits
from tests.faults.delivery.processes import StationProcess, freeze
from tests.faults.delivery.site import Site, until
from tests.ledgers import Pair

pytestmark = pytest.mark.anyio

LATEST = 5.0
"""Seconds after the end of its lease in which a delivery is sent again."""


def again(receipts: Iterable[Receipt]) -> dict[Pair, list[float]]:
    """When deliveries arrived once more than they should have."""
    arrived: defaultdict[Pair, list[float]] = defaultdict(list)
    for receipt in receipts:
        arrived[receipt.webhook_id, receipt.endpoint].append(receipt.arrived_at)
    return {pair: times[1:] for pair, times in arrived.items() if len(times) > 1}


async def test_f1_killed_in_mid_send(site: Site) -> None:
    """What a killed worker had in flight is sent again under its id, after its lease and soon; nothing else is."""
    await site.alike(Slow(0.1), cap=site.sizes.slots)
    apis, workers = await site.fleet()
    producer = site.producer()
    producing = asyncio.create_task(producer.send([each.ask for each in apis], site.sizes.messages // 2))
    allowed, freed = 0, defaultdict[Pair, list[tuple[float, float]]](list)
    # The first victim surely has something in flight: there is more than all others together could have.
    more_than = (len(workers) - 1) * site.sizes.slots
    for _ in range(site.sizes.kills):
        victim = site.random.choice(workers)
        await until(lambda least=more_than: _in_flight(site) > least)  # type: ignore[misc]
        more_than = 0
        await freeze(victim)
        held = await leases(site.database)
        # As many again may be set aside, because nobody has answered them yet.
        allowed += min(len(held), 2 * site.sizes.slots)
        await victim.kill()
        killed_at = time.time()
        await victim.start()
        if isinstance(site.database, SqliteDatabase):
            # A process that is alone with its file ends the leases of the one before it when it starts; if it is killed
            # before their turn has come, it is for the next one to send them soon.
            started_at = time.time()
            for pair in {*freed, *held}:
                freed[pair].append((killed_at, started_at))
        else:
            for pair, end in held.items():
                freed[pair].append((end, end))
    await producing
    await site.rest()
    report = await site.report(producer, duplicates=allowed)
    assert report.sound, report
    repeated = again(site.receipts())
    assert repeated, "something was in flight"
    for pair, times in repeated.items():
        for arrived_at in times:
            late = min((arrived_at - latest for earliest, latest in freed[pair] if earliest <= arrived_at), default=inf)
            assert late <= LATEST, f"{pair} came {late:.3f} s after its lease"


def _in_flight(site: Site) -> int:
    return sum(each.in_flight for each in site.receivers.counts.values())


async def test_f2_killed_before_the_settle(site: Site) -> None:
    """A worker that dies between the answer and the settle costs one duplicate each time, and no more."""
    await site.alike()
    apis, workers = await site.fleet(slots=1, batch=1)
    for idle in workers[1:]:
        await idle.kill()
    worker = workers[0]
    producer = site.producer()
    await worker.kill()
    for number in range(site.sizes.kills):
        await worker.start(stop_at=f"after_send:{number + 1}")
        await producer.send([each.ask for each in apis], 1 if worker in apis else number + 2, at_once=1)
        assert await worker.ended(20) == -signal.SIGKILL
    await worker.start()
    await site.rest()
    report = await site.report(producer, duplicates=site.sizes.kills)
    assert report.sound, report
    assert len(report.doubled) == site.sizes.kills


@pytest.mark.parametrize("point", ["before_insert", "after_insert", "after_commit", "before_reply"])
async def test_f3_killed_while_accepting(site: Site, point: str) -> None:
    """A client that repeats its key after a cut is told one id, and its message is stored and sent once."""
    await site.endpoints({"ep_1": Ok()})
    if point == "after_insert" and site.database.shared:
        await slow_down_commits(site.database)
    api = site.process(works=not site.database.shared)
    await api.start(stop_at=point)
    producer = site.producer()
    producing = asyncio.create_task(producer.send([api.ask], 5))
    assert await api.ended(20) == -signal.SIGKILL
    await api.start()
    await producing
    assert producer.cut_off > 0
    assert await messages(site.database) == 5
    if site.database.shared:
        await site.process(accepts=False).start()
    await site.rest()
    report = await site.report(producer)
    assert report.sound, report


async def test_f8_a_payload_that_kills(site: Site) -> None:
    """A message that kills every worker that touches it is quarantined at the third; all others arrive."""
    await site.endpoints({"ep_1": Ok(), "ep_2": Ok()}, cap=4)
    apis, workers = await site.fleet()
    for worker in workers:
        await worker.kill()
        await worker.start(stop_at="poison")
    watching = asyncio.create_task(_keep_alive(workers))
    producer = site.producer()
    try:
        asks = [each.ask for each in apis]
        await asyncio.gather(producer.send(asks, 30), producer.send(asks, 1, mark="poison"))
        await site.rest()
    finally:
        watching.cancel()
    ends = await site.database.rows("SELECT state, reason, deaths FROM {schema}deliveries WHERE state <> 'sent'")
    assert sorted(map(tuple, ends)) == [("failed", "quarantined", 3)] * 2
    report = await site.report(producer, duplicates=3 * 2 * site.sizes.slots)
    assert report.sound, report


async def _keep_alive(workers: list[StationProcess]) -> None:
    """What a supervisor does."""
    while True:
        for worker in workers:
            if not worker.running:
                await worker.kill()
                await worker.start(stop_at="poison")
        await asyncio.sleep(0.02)
