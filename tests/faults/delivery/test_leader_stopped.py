"""A leader that stands still beyond its leases, is replaced, and goes on as if nothing had happened."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from hookfuse.core.duty import Duty
from hookfuse.testing.receivers import Gone, Ok, Slow
from tests.faults.delivery.databases import dump
from tests.faults.delivery.processes import StationProcess, frozen
from tests.faults.delivery.site import Site, until

pytestmark = pytest.mark.anyio

DUTIES = {Duty.NOTICES, Duty.RESCUE}
PATIENT: dict[str, Any] = {"longest_timeout": 10.0, "lease": 30.0}
"""Of the worker that lives: however busy the machine is, nobody else comes for what it has in hand."""


async def leads(site: Site, process: StationProcess) -> bool:
    """Whether it does all of these duties, by what the database says."""
    rows = await site.database.rows("SELECT duty, holder FROM {schema}duties")
    return {duty for duty, holder in rows if int(holder.split(":")[1]) == process.pid} >= DUTIES


async def all_told(site: Site) -> bool:
    rows = await site.database.rows("SELECT state FROM {schema}notices")
    return [tuple(row) for row in rows] == [("sent",)]


async def test_f7_stopped_with_a_notice_in_hand(site: Site) -> None:
    """A leader that was replaced tells nobody twice when it goes on, and no worker's death is counted twice."""
    if not site.database.shared:
        pytest.skip("one process has the file to itself")
    await site.endpoints({"gone": Gone(), "ep_1": Ok()}, timeout_ms=int(PATIENT["longest_timeout"] * 1000))
    site.tell()
    first, worker = site.process(works=False), site.process(accepts=False)
    await first.start(stop_at="notice_claimed:1:SIGSTOP")
    await until(lambda: leads(site, first))
    await worker.start(stop_at="poison")
    producer = site.producer()
    await producer.send([first.ask], 1)
    await until(lambda: frozen(first), site.sizes.patience)
    second = site.process(works=False)
    await second.start()
    await producer.send([second.ask], 1, mark="poison")
    assert await worker.ended(20) == -signal.SIGKILL
    deadly = producer.produced[-1].id
    site.receivers.change("ep_1", Slow(1.0))
    await until(lambda: leads(site, second), site.sizes.patience)
    await until(lambda: all_told(site), site.sizes.patience)
    await site.process(accepts=False, **PATIENT).start()
    await until(lambda: site.receivers.counts["ep_1"].in_flight > 0)
    first.signal(signal.SIGCONT)
    await first.breakers()
    first.signal(signal.SIGTERM)
    # It waits for what it has begun.
    assert await first.ended(20) == 0
    await until(lambda: is_sent(site, deadly), site.sizes.patience)
    told = [each.webhook_id for each in site.receipts() if each.endpoint == "ops"]
    assert len(told) == 1, told
    rows = await site.database.rows("SELECT message_id, deaths FROM {schema}deliveries WHERE endpoint_id = 'ep_1'")
    assert (deadly, 1) in {tuple(row) for row in rows}, rows
    assert len([each for each in site.receipts() if each.webhook_id == deadly]) == 1


async def is_sent(site: Site, message: str | None) -> bool:
    return (message, "ep_1", "sent") in {(row.message, row.endpoint, row.state) for row in await dump(site.database)}
