"""Postgres goes away behind `hookfuse api`: what its clients are told over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Literal

import httpx
import pytest

from hookfuse.testing.receivers import Ok
from tests.faults.delivery.databases import PostgresDatabase
from tests.faults.delivery.http import HttpCounter, key_of
from tests.faults.delivery.http import serving as serving_http
from tests.faults.delivery.site import Site, until
from tests.faults.delivery.sizes import Sizes, seed
from tests.servers.postgres import Server, serving

pytestmark = pytest.mark.anyio

BACK_WITHIN = 5.0
AT_ONCE = 16


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as made:
        yield made


@pytest.fixture
async def site(tmp_path: Path, server: Server, sizes: Sizes) -> AsyncIterator[Site]:
    made = Site(tmp_path, PostgresDatabase(server.url), sizes, seed())
    print(f"HOOKFUSE_SEED={made.seed}")  # noqa: T201
    with made.receivers:
        yield made
        await made.close()
        print(made.said())  # noqa: T201


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_d1_told_over_http(site: Site, server: Server, mode: Literal["fast", "immediate"]) -> None:
    """Without Postgres the API answers 503 and when to come again, never a false yes; soon after, it takes messages."""
    await site.endpoints({"ep_1": Ok(), "ep_2": Ok()}, cap=site.sizes.slots)
    headers = {"authorization": f"Bearer {await key_of(site)}"}
    await site.process(accepts=False).start()
    producer = site.producer()
    with serving_http(site, "api") as api:
        async with httpx.AsyncClient(base_url=api.url, headers=headers, timeout=20) as client:
            counter = HttpCounter(client)
            sending = producer.send([counter.ask], 3 * site.sizes.messages, at_once=AT_ONCE)
            producing = asyncio.create_task(sending)
            await until(lambda: len(producer.produced) > site.sizes.messages // 4)
            await asyncio.to_thread(server.stop, mode)
            away = time.monotonic()
            await until(lambda: len(counter.within(away, time.monotonic())) >= 2 * AT_ONCE)
            ended = time.monotonic()
            assert {each.status_code for each in counter.within(away, ended)} == {503}
            before = len(producer.produced)
            await asyncio.to_thread(server.start)
            assert await until(lambda: len(producer.produced) > before + AT_ONCE) < BACK_WITHIN
            await producing
    refusals = [each.response for each in counter.answers if not each.response.is_success]
    for refusal in refusals:
        assert (refusal.status_code, refusal.headers["content-type"]) == (503, "application/problem+json")
        assert int(refusal.headers["retry-after"]) >= 1
    assert producer.cut_off == 0
    await site.rest()
    report = await site.report(producer, duplicates=site.sizes.slots)
    assert report.sound, report
