"""Postgres goes away behind `hookfuse api`: what its clients are told over HTTP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import httpx
import pytest

from hookfuse.api.keys import make_key
from hookfuse.core.access import Role
from hookfuse.testing.receivers import Ok
from tests.faults.delivery.databases import PostgresDatabase
from tests.faults.delivery.site import Site, until
from tests.faults.delivery.sizes import Sizes, seed
from tests.faults.delivery.station import APP
from tests.servers.postgres import Server, serving
from tests.service.programs import environment
from tests.service.programs import serving as serving_http

pytestmark = pytest.mark.anyio

BACK_WITHIN = 5.0
AT_ONCE = 16
UID = "ordeal"


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


class Answered(NamedTuple):
    asked_at: float
    answered_at: float
    response: httpx.Response


class HttpCounter:
    """Where messages are handed in over HTTP; it keeps every answer."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.answers: list[Answered] = []

    async def ask(self, key: str, payload: str) -> Mapping[str, Any]:
        content = f'{{"eventType":"invoice.paid","payload":{payload}}}'
        asked_at = time.monotonic()
        try:
            response = await self._client.post(
                f"/api/v1/app/{UID}/msg", content=content, headers={"idempotency-key": key}
            )
        except httpx.TransportError as error:
            raise ConnectionError("the API did not answer") from error
        self.answers.append(Answered(asked_at, time.monotonic(), response))
        if response.is_success:
            return {"id": response.json()["id"]}
        return {"error": response.text}

    def within(self, began: float, ended: float) -> list[httpx.Response]:
        """The answers to what was asked and answered in this time."""
        return [each.response for each in self.answers if began < each.asked_at and each.answered_at < ended]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
async def test_d1_told_over_http(
    site: Site, server: Server, tmp_path: Path, mode: Literal["fast", "immediate"]
) -> None:
    """Without Postgres the API answers 503 and when to come again, never a false yes; soon after, it takes messages."""
    await site.endpoints({"ep_1": Ok(), "ep_2": Ok()}, cap=site.sizes.slots)
    async with site.station() as station:
        await station.store.change_application(APP, {"uid": UID})
        _, key = await make_key(station.store, Role.ADMIN, "producer")
    await site.process(accepts=False).start()
    producer = site.producer()
    env = environment(tmp_path, database_url=server.url)
    headers = {"authorization": f"Bearer {key}"}
    with serving_http(env, "api", log=tmp_path / "api.log") as api:
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
