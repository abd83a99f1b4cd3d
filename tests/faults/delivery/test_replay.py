"""Many failed deliveries that are sent again, by the task that REST, the command line and the pages start."""

from __future__ import annotations

import resource
import tracemalloc

import pytest

from hookfuse import Policy, Streak
from hookfuse.api.tasks import TaskRunner
from hookfuse.app.station import Station
from hookfuse.core.delivery import Chosen, DeliveryState
from hookfuse.core.record import Task, TaskKind, TaskStatus
from hookfuse.testing.receivers import Failing, Ok
from tests.faults.delivery.databases import dump, unfinished
from tests.faults.delivery.site import Site, counter, until, working
from tests.faults.delivery.station import APP, new_message

pytestmark = pytest.mark.anyio

FAILED = Chosen(APP, states=(DeliveryState.FAILED,))
NEVER_OPEN = Policy(trip=Streak(1_000_000)).to_dict()
AT_ONCE = 500
NOISE = 256 << 10
"""Bytes that the station's other work may take meanwhile; a row that is kept takes hundreds."""
MOST_GROWTH = 48 << 10
"""KiB by which the process may grow, and be it in what Python does not count."""


async def test_g10_replay_of_a_heap(site: Site) -> None:
    """However many failed deliveries are retried, it takes the memory of a few, and each is retried once."""
    await site.endpoints({"ep_1": Ok()})
    heap = site.sizes.heap
    async with site.station() as station:
        await _peak(site, station, AT_ONCE, AT_ONCE)
        few = await _peak(site, station, heap // 5 - AT_ONCE, heap // 5)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        many = await _peak(site, station, heap - heap // 5, heap)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(f"{few >> 10} KiB for {heap // 5} deliveries, {many >> 10} KiB for {heap}")  # noqa: T201
    assert many <= few * 1.25 + NOISE
    assert grown < MOST_GROWTH, f"the process grew by {grown} KiB"


async def _peak(site: Site, station: Station, more: int, heap: int) -> int:
    """Bytes that it took at most to retry what there is with so many more, all of which failed."""
    for first in range(0, more, AT_ONCE):
        await station.store.accept([new_message(f"key-{heap}-{first + n}", b"%d" % n) for n in range(AT_ONCE)])
    await site.database.rows(
        "UPDATE {schema}deliveries SET state = 'failed', queue = NULL, place = NULL, due_ms = NULL,"
        " ended_ms = created_ms"
    )
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        task = await _retry_failed(site, station)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (task.total, task.seen, task.changed) == (heap, heap, heap)
    assert await unfinished(site.database) == heap
    return peak - before


async def test_g10_what_is_replayed_arrives(site: Site) -> None:
    """What failed for good is sent once more when it is retried, and arrives."""
    await site.endpoints({"ep_1": Failing()}, retry={"delays": [], "jitter": 0}, policy=NEVER_OPEN, cap=8)
    producer = site.producer()
    async with site.station() as station, working(station.worker):
        await producer.send([counter(station)], site.sizes.messages)
        await site.rest()
        site.receivers.change("ep_1", Ok())
        task = await _retry_failed(site, station)
        assert (task.seen, task.changed) == (site.sizes.messages, site.sizes.messages)
        await site.rest()
    assert {(row.state, row.attempts) for row in await dump(site.database)} == {("sent", 2)}
    report = await site.report(producer, retried=site.sizes.messages)
    assert report.sound, report


async def _retry_failed(site: Site, station: Station) -> Task:
    """Retry all that failed; returns the task as it ended."""
    runner = TaskRunner(station.store)
    started = await runner.retry(TaskKind.BULK_RETRY, FAILED, "", await station.store.count(FAILED))

    async def ended() -> bool:
        task = await station.store.task(started.id)
        return task is not None and task.status is TaskStatus.FINISHED

    try:
        await until(ended, site.sizes.patience)
    finally:
        await runner.close()
    task = await station.store.task(started.id)
    assert task is not None
    return task
