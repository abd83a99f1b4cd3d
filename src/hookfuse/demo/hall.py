"""The service in the demo's own process, with the receivers' switchboard on its port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.types import ASGIApp

from hookfuse.app.first_start import Started
from hookfuse.app.parts import bind
from hookfuse.app.service import Part, Service
from hookfuse.app.station import Station
from hookfuse.config import Settings
from hookfuse.demo.books import Books
from hookfuse.demo.receivers import DemoReceivers
from hookfuse.demo.switchboard import Switchboard
from hookfuse.demo.watch import Watch
from hookfuse.errors import HookfuseError, InvalidInput

T = TypeVar("T")


class Hall:
    """Everything but the worker, if there are worker processes."""

    def __init__(self, settings: Settings, receivers: DemoReceivers, books: Books, workers: int) -> None:
        self._settings = settings
        self._receivers = receivers
        self._books = books
        self._part = Part.SERVE if workers == 1 else Part.API
        self.serving: asyncio.Task[None]
        self.switchboard: Switchboard
        self.watch: Watch

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Started]:
        started: asyncio.Future[Started] = asyncio.get_running_loop().create_future()
        try:
            sock = bind(self._settings)
        except InvalidInput:
            raise InvalidInput(f"Port {self._settings.port} is not to be had; choose another --port.") from None

        def tell(what: Started) -> None:
            # Whoever waited may have been cancelled meanwhile.
            if not started.done():
                started.set_result(what)

        service = Service(self._settings, self._part, sock, tell, self._around, heeds_signals=False)
        self.serving = asyncio.create_task(service.run(), name="demo-service")
        try:
            yield await while_serving(self.serving, started)
        finally:
            if not self.serving.done():
                service.stop()
            await self.serving

    def _around(self, station: Station, served: ASGIApp) -> ASGIApp:
        self.watch = Watch(station, self._books)
        self._books.heard = self.watch.wake
        self._books.in_flight = self._receivers.in_flight
        self.switchboard = Switchboard(served, self._receivers)
        return self.switchboard


async def while_serving(serving: asyncio.Task[None], work: Awaitable[T]) -> T:
    """Do something, unless the service ends meanwhile: then raise what ended it."""
    doing = asyncio.ensure_future(work)
    try:
        await asyncio.wait([doing, serving], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            await serving
            raise HookfuseError("The service ended by itself.")
        return await doing
    finally:
        doing.cancel()
        await asyncio.gather(doing, return_exceptions=True)
