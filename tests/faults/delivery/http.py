"""`hookfuse` as its clients meet it: a program that serves, and a counter where messages are handed in over HTTP."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx

from hookfuse.api.keys import make_key
from hookfuse.core.access import Role
from tests.faults.delivery.site import Site
from tests.faults.delivery.station import APP
from tests.service.programs import Served, environment

UID = "ordeal"
WAY = f"/api/v1/app/{UID}/msg"


class Tampered(Served):
    """The program as `program.py` changes it."""

    before = (sys.executable, "-m", "tests.faults.delivery.program")


@contextmanager
def serving(site: Site, part: str, **settings: str) -> Iterator[Tampered]:
    """A part of the service on the site's database; settings are named as in `environment`."""
    env = environment(site.folder, database_url=site.database.url, **settings)
    program = Tampered(env, part, log=site.folder / f"{part}.log")
    try:
        program.wait_until_ready()
        yield program
    finally:
        program.end()


async def key_of(site: Site) -> str:
    """A key for whoever hands in messages, and the name under which the application is then found."""
    async with site.station() as station:
        await station.store.change_application(APP, {"uid": UID})
        _, key = await make_key(station.store, Role.ADMIN, "producer")
    return key


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
        asked_at = time.monotonic()
        try:
            response = await self._client.post(WAY, content=body_of(payload), headers={"idempotency-key": key})
        except httpx.TransportError as error:
            raise ConnectionError("the API did not answer") from error
        self.answers.append(Answered(asked_at, time.monotonic(), response))
        if response.is_success:
            return {"id": response.json()["id"]}
        return {"error": response.text}

    def within(self, began: float, ended: float) -> list[httpx.Response]:
        """The answers to what was asked and answered in this time."""
        return [each.response for each in self.answers if began < each.asked_at and each.answered_at < ended]


def body_of(payload: str) -> str:
    return f'{{"eventType":"invoice.paid","payload":{payload}}}'
