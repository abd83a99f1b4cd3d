"""The program that takes messages over HTTP ends without a word; its clients come again with their keys."""

from __future__ import annotations

import asyncio
import signal

import httpx
import pytest

from hookfuse.testing.receivers import Ok
from tests.faults.delivery.databases import messages, slow_down_commits
from tests.faults.delivery.http import HttpCounter, key_of, serving
from tests.faults.delivery.site import Site

pytestmark = pytest.mark.anyio

MESSAGES = 20
LEAVES = {"before_insert": (False,), "after_insert": (False, True), "after_commit": (True,), "before_reply": (True,)}
"""Whether a process that ends at this point leaves messages behind; Postgres may end a commit without its client."""


@pytest.mark.parametrize("point", LEAVES)
async def test_f3_killed_while_accepting_over_http(site: Site, point: str) -> None:
    """Clients of a killed API that repeat their keys get one id each, and each message is stored and sent once."""
    await site.endpoints({"ep_1": Ok(), "ep_2": Ok()}, cap=site.sizes.slots)
    headers = {"authorization": f"Bearer {await key_of(site)}"}
    part = "api" if site.database.shared else "serve"
    if point == "after_insert" and site.database.shared:
        await slow_down_commits(site.database)
    producer = site.producer()
    async with httpx.AsyncClient(headers=headers, timeout=20) as client:
        counter = HttpCounter(client)
        with serving(site, part, test_stop=point) as doomed:
            client.base_url = httpx.URL(doomed.url)
            producing = asyncio.create_task(producer.send([counter.ask], MESSAGES))
            assert await asyncio.to_thread(doomed.process.wait, 20) == -signal.SIGKILL
        assert producer.produced == [], "it ended at the first that it took"
        assert (await messages(site.database) > 0) in LEAVES[point]
        with serving(site, part) as api:
            client.base_url = httpx.URL(api.url)
            if site.database.shared:
                await site.process(accepts=False).start()
            await producing
            await site.rest()
    assert producer.cut_off > 0
    assert {each.response.status_code for each in counter.answers} == {202}
    assert await messages(site.database) == MESSAGES
    report = await site.report(producer)
    assert report.sound, report
