"""Whoever dies at whatever step: a disabled endpoint is told of once, and twice only if the receiver had it already."""

from __future__ import annotations

import asyncio
import signal
import time

import pytest

from hookfuse.delivery.leader import LEASE
from hookfuse.delivery.notify import NotifySettings
from hookfuse.testing.receivers import Failing, Gone, Receipt
from tests.faults.delivery.processes import StationProcess
from tests.faults.delivery.site import Site, until

pytestmark = pytest.mark.anyio

LATEST = 60.0
"""Seconds after a kill in which the notice must be there."""
AFTER = ("notice_claimed", "notice_posted", "notice_settled")
BREAKER_STEPS = ("transition", "before_keep", "in_outbox", "after_keep", "before_stop", "after_stop", *AFTER)
DISABLES_AT_ONCE = {"trip": [{"rule": "streak", "n": 1}], "cool_off": 60.0, "disable_after": 1}


def told(site: Site) -> list[Receipt]:
    return [each for each in site.receipts() if each.endpoint == "ops"]


async def kill_and_restart(site: Site, point: str) -> float:
    """A message goes to the endpoint, and the process that delivers dies at the point; returns when."""
    process = site.process()
    await process.start(stop_at=point)
    sending = asyncio.create_task(site.producer().send([process.ask], 1, at_once=1))
    assert await process.ended(30) == -signal.SIGKILL, site.said()
    killed = time.time()
    await process.start()
    await sending
    return killed


async def stopped(site: Site) -> bool:
    """Whether the row says so too, and why, and since when."""
    ((stop, reason, at),) = await site.database.rows("SELECT stop, disabled_reason, disabled_ms FROM {schema}endpoints")
    return (stop, reason) == (1, "breaker: streak") and at is not None


async def settle_down(site: Site) -> None:
    """Wait until the outbox has nothing more to send."""

    async def quiet() -> bool:
        rows = await site.database.rows("SELECT count(*), count(ended_ms) FROM {schema}notices")
        made, ended = map(int, rows[0])
        return 0 < made == ended

    await until(quiet, LATEST)
    # Whatever is still to come, in spite of that, would be sent by now.
    await asyncio.sleep(0.5)


async def check(site: Site, point: str, killed: float) -> None:
    await until(lambda: bool(told(site)), LATEST)
    await settle_down(site)
    found = told(site)
    rows = await site.database.rows("SELECT id, state, attempts FROM {schema}notices")
    assert len(rows) == 1, rows
    assert {each.webhook_id for each in found} == {rows[0][0]}
    assert rows[0][1] == "sent"
    assert len(found) == (2 if point == "notice_posted" else 1)
    assert all(each.verified for each in found)
    assert found[-1].arrived_at - killed <= LATEST
    print(f"{point}: the notice was there {found[-1].arrived_at - killed:.1f} s after the kill")  # noqa: T201


@pytest.mark.parametrize("point", ["before_stop", "in_outbox", "after_stop", *AFTER])
async def test_g9_killed_while_a_gone_endpoint_is_disabled(site: Site, point: str) -> None:
    """An endpoint that answers 410 is disabled with one notice, at whatever step its worker is killed."""
    await site.endpoints({"ep_1": Gone()})
    site.tell()
    await check(site, point, await kill_and_restart(site, point))
    disabled = await site.database.rows("SELECT stop, disabled_reason FROM {schema}endpoints")
    assert disabled[0][0] == 1


@pytest.mark.parametrize("point", BREAKER_STEPS)
async def test_g9_killed_while_a_breaker_disables(site: Site, point: str, request: pytest.FixtureRequest) -> None:
    """An endpoint that its breaker disables is told of once and stopped, at whatever step; with Redis it remembers."""
    if site.database.shared:
        site.redis = request.getfixturevalue("redis_url")
    await site.endpoints({"ep_1": Failing(500)}, policy=DISABLES_AT_ONCE)
    site.tell()
    await check(site, point, await kill_and_restart(site, point))
    await until(lambda: stopped(site), LATEST)
    kept = await site.database.rows("SELECT before, after, actor FROM {schema}transitions")
    assert [tuple(row) for row in kept] == [("closed", "disabled", "breaker")]


async def test_g9_another_process_tells(site: Site, redis_url: str) -> None:
    """Where others live, they write down and tell what a killed worker had only done, before it is back."""
    if not site.database.shared:
        pytest.skip("one process has the file to itself")
    site.redis = redis_url
    await site.endpoints({"ep_1": Failing(500)}, policy=DISABLES_AT_ONCE)
    site.tell()
    others: list[StationProcess] = [site.process(works=False) for _ in range(2)]
    for other in others:
        await other.start()
    worker = site.process(accepts=False)
    await worker.start(stop_at="transition")
    await site.producer().send([others[0].ask], 1, at_once=1)
    assert await worker.ended(30) == -signal.SIGKILL
    await check(site, "transition", time.time())


def test_the_leases_leave_time() -> None:
    """With the settings of the program too, a killed leader and a lost claim are over well within the minute."""
    assert LEASE + NotifySettings().lease + NotifySettings().look_every < LATEST
