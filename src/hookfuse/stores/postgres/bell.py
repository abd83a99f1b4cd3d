"""Wakes who waits for work: in this process at once, in others by NOTIFY.

Notices go out after the commit and in a transaction of their own. Within the transaction that stores messages a NOTIFY
would hold a lock of the whole cluster until that commit is on the disk, and commits could no longer share a sync.
However many are asked for, one is on its way at a time. A notice may be lost with its process or connection; it is a
hint, and polling makes it good.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from hookfuse.errors import StoreError

CHANNEL = "hookfuse"

_CHECKED_EVERY = 15.0
_POLLED_EVERY = 1.0
_PAUSES = (0.1, 0.5, 1.0, 2.0)


class Bell:
    """`listen_url` leads to the server itself, not to a pooler; None: others' notices are not heard."""

    def __init__(
        self, listen_url: str | None, notify: Callable[[str], Awaitable[None]], *, answers_within: float
    ) -> None:
        self._url = listen_url
        self._notify = notify
        self._answers_within = answers_within
        self._name = secrets.token_hex(8)
        self._rung = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sending = False
        self._again = False
        self._hears = False

    def open(self) -> None:
        if self._url is not None:
            self._start(self._listen(self._url))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def ring_here(self) -> None:
        self._rung.set()

    def ring(self) -> None:
        """Wake this process and, a moment later, all others."""
        self._rung.set()
        if self._sending:
            self._again = True
        else:
            self._sending = True
            self._start(self._send())

    async def wait(self, seconds: float) -> None:
        # Who cannot hear looks often.
        most = seconds if self._hears else min(seconds, _POLLED_EVERY)
        try:
            async with asyncio.timeout(most):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()

    async def _send(self) -> None:
        try:
            while True:
                self._again = False
                with suppress(StoreError):
                    await self._notify(self._name)
                if not self._again:
                    return
        finally:
            self._sending = False

    async def _listen(self, url: str) -> None:
        failures = 0
        while True:
            try:
                async with asyncio.timeout(self._answers_within):
                    connection = await asyncpg.connect(url, server_settings={"application_name": "hookfuse listen"})
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await asyncio.sleep(_PAUSES[min(failures, len(_PAUSES) - 1)])
                failures += 1
                continue
            failures = 0
            try:
                with suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                    await self._hear(connection)
            finally:
                self._hears = False
                connection.terminate()
                # What was said meanwhile was missed.
                self._rung.set()

    async def _hear(self, connection: Any) -> None:
        """Until the connection is lost. It is asked for a sign of life now and then: a dead one stays silent too."""
        ended = asyncio.Event()
        connection.add_termination_listener(lambda _: ended.set())
        async with asyncio.timeout(self._answers_within):
            await connection.add_listener(CHANNEL, self._heard)
        self._hears = True
        self._rung.set()
        while not ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECKED_EVERY):
                    await ended.wait()
            if not ended.is_set():
                async with asyncio.timeout(self._answers_within):
                    await connection.execute("SELECT 1")

    def _heard(self, _connection: Any, _pid: int, _channel: str, sender: object) -> None:
        if sender != self._name:
            self._rung.set()

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
