"""Notices of lost messages and of stages of failing, whoever dies at whatever step: each once, and none is lost."""

from __future__ import annotations

import asyncio
import json
import signal

import pytest

from hookfuse.core.notice import Event
from hookfuse.testing.receivers import Failing, Receipt
from tests.faults.delivery.site import Site, until

pytestmark = pytest.mark.anyio

LATEST = 60.0
STEPS = ("in_outbox", "notice_claimed", "notice_posted", "notice_settled")
NEVER_TRIPS = {"trip": [{"rule": "streak", "n": 1_000}]}
ONCE: dict[str, object] = {"delays": []}
QUIET_MS = 1_500
STAGES_MS = (200, 2_000)


def told(site: Site) -> list[Receipt]:
    return [each for each in site.receipts() if each.endpoint == "ops"]


async def send_and_kill(site: Site, messages: int, point: str) -> None:
    process = site.process()
    await process.start(stop_at=point)
    sending = asyncio.create_task(site.producer().send([process.ask], messages, at_once=1))
    assert await process.ended(30) == -signal.SIGKILL, site.said()
    await process.start()
    await sending


async def outbox(site: Site) -> list[tuple[str, int, str, int, str]]:
    rows = await site.database.rows(
        "SELECT id, attempts, state, folded, facts FROM {schema}notices ORDER BY from_ms, created_ms"
    )
    return [(id_, int(attempts), state, int(folded), facts) for id_, attempts, state, folded, facts in rows]


async def check_receipts(site: Site, point: str) -> None:
    """What was sent is what arrived, and a second time only what its receiver had when the process died."""
    sent = {row[0]: row[1] for row in await outbox(site) if row[2] == "sent"}
    arrived = [each.webhook_id for each in told(site)]
    assert set(arrived) == set(sent)
    repeated, claimed_again = len(arrived) - len(sent), sum(sent.values()) - len(sent)
    if point in STEPS:
        assert repeated == (point == "notice_posted")
    else:
        # When a later message is written down, the notice of the first may be anywhere on its way.
        assert 0 <= repeated <= claimed_again <= 1
    assert all(each.verified for each in told(site))


@pytest.mark.parametrize("point", STEPS)
async def test_killed_while_a_stage_is_told(site: Site, point: str) -> None:
    """An endpoint that fails is told of once for each stage; one that passed while nobody led is told by the next."""
    await site.endpoints({"ep_1": Failing(500)}, policy=NEVER_TRIPS)
    site.tell(hears=(Event.FAILING,), stages_ms=STAGES_MS, quiet_ms=0)
    await send_and_kill(site, 1, point)

    async def last_told() -> bool:
        found = await outbox(site)
        return bool(found) and found[-1][2] == "sent" and json.loads(found[-1][4])["stage_ms"] == STAGES_MS[-1]

    await until(last_told, LATEST)
    # Whatever is still to come, in spite of that, would be there by now.
    await asyncio.sleep(1)
    stages = [json.loads(row[4])["stage_ms"] for row in await outbox(site)]
    assert stages == list(STAGES_MS if point != "in_outbox" or not site.database.shared else STAGES_MS[-len(stages) :])
    await check_receipts(site, point)


@pytest.mark.parametrize("point", [*STEPS, "in_outbox:2", "in_outbox:3"])
async def test_killed_while_lost_messages_are_told(site: Site, point: str) -> None:
    """Of three messages that are given up the first is told at once, the others by one notice after the window."""
    await site.endpoints({"ep_1": Failing(500)}, policy=NEVER_TRIPS, retry=ONCE)
    site.tell(hears=(Event.EXHAUSTED,), quiet_ms=QUIET_MS)
    await send_and_kill(site, 3, point)
    await site.rest()

    async def all_told() -> bool:
        found = await outbox(site)
        return all(row[2] == "sent" for row in found) and sum(1 + row[3] for row in found) == 3

    await until(all_told, LATEST)
    await check_receipts(site, point)
    keys = await site.database.rows("SELECT key, generation, channel FROM {schema}notices")
    assert len({tuple(row) for row in keys}) == len(keys)
