"""Sends messages through the API as any producer does: over HTTP and with a key."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from hookfuse.core.addresses import Networks
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request
from hookfuse.demo.books import Books
from hookfuse.demo.plan import Plan
from hookfuse.demo.receivers import CAST, IN_WORDS, DemoReceivers
from hookfuse.errors import HookfuseError
from hookfuse.transport import HttpSender

CAP = 10
"""Requests that a receiver may have in flight."""

_LOOPBACK = Networks(allowed=("127.0.0.1/32",))
_APP = "demo"
_DEADLINE = 10.0
_TIMEOUT = 5.0


class Refused(HookfuseError):
    """The service did not take a request that it should take."""


class Producer:
    """Makes the application and its endpoints, then sends until it is told to stop."""

    def __init__(self, url: str, key: str, books: Books) -> None:
        self._url = url
        self._key = key
        self._books = books
        self._sender = HttpSender(_LOOPBACK)
        self._number = 0
        self.app_id = ""
        self.endpoint_ids: dict[str, str] = {}
        """By the receivers' names."""

    async def close(self) -> None:
        await self._sender.close()

    async def set_up(self, receivers: DemoReceivers) -> None:
        self.app_id = (await self._made("/app", {"name": "Demo shop", "uid": _APP}))["id"]
        for name in CAST:
            wanted = {
                "url": receivers.url(name),
                "uid": name,
                "description": f"{name}: {IN_WORDS[receivers.conduct(name)]}",
                "secret": receivers.secrets[name].text,
                "cap": CAP,
                "timeout": _TIMEOUT,
            }
            self.endpoint_ids[name] = (await self._made(f"/app/{_APP}/endpoint", wanted))["id"]

    @asynccontextmanager
    async def sending(self, plan: Plan, slowed: float = 1.0) -> AsyncIterator[None]:
        """Bursts of messages in the background; at the end the last one gets its answer."""
        stop = asyncio.Event()
        task = asyncio.create_task(self._send(plan.burst, plan.burst / plan.rate * slowed, stop), name="demo-producer")
        try:
            yield
        finally:
            stop.set()
            await task

    async def _send(self, burst: int, pause: float, stop: asyncio.Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            await asyncio.gather(*(self._send_one() for _ in range(burst)))
            try:
                async with asyncio.timeout(max(0.0, began + pause - time.monotonic())):
                    await stop.wait()
            except TimeoutError:
                continue

    async def _send_one(self) -> None:
        self._number += 1
        sent_at = time.time()
        body = {"eventType": "order.paid", "payload": {"order": self._number, "total": "9.99"}}
        status, answer = await self._post(f"/app/{_APP}/msg", body)
        # Without an answer nobody promised anything, so it does not count.
        if status == 202:
            self._books.took(answer["id"], sent_at)

    async def _made(self, path: str, body: Mapping[str, Any]) -> Any:
        status, answer = await self._post(path, body)
        if status != 201:
            raise Refused(f"The service answered {status or 'nothing'} where it should have made something ({path}).")
        return answer

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int | None, Any]:
        result = await self._sender.send(
            Request(
                Destination.parse(f"{self._url}/api/v1{path}", networks=_LOOPBACK),
                (("authorization", f"Bearer {self._key}"), ("content-type", "application/json")),
                json.dumps(body).encode(),
                _DEADLINE,
            )
        )
        return result.status, json.loads(result.body) if result.body else None
