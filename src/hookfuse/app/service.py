"""A process of the service, from its start to its orderly end.

    serve    everything on one port: the API, a worker, health and metrics
    api      the same without the worker
    worker   the worker; health and metrics only if it is given a port

The first signal to stop closes the port, lets requests in flight end, gives back what was not begun, and writes
everything down. A second one ends at once: what was in flight is sent again when its lease has ended.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, contextmanager
from enum import StrEnum
from typing import Any, TypeAlias

import uvicorn
from starlette.types import ASGIApp

from hookfuse.api.keys import make_first_key
from hookfuse.app.alarm import Alarm
from hookfuse.app.first_start import Started, check_master_key
from hookfuse.app.health import Health
from hookfuse.app.heartbeat import Heartbeat
from hookfuse.app.logs import EventLog
from hookfuse.app.metrics import Metrics
from hookfuse.app.pages import keep_password_key, make_dashboard
from hookfuse.app.parts import station_settings
from hookfuse.app.process import prepare_process
from hookfuse.app.protocol import server_config
from hookfuse.app.station import Station
from hookfuse.app.surface import Surface
from hookfuse.app.tracing import attempt_spans
from hookfuse.app.watch import Watcher
from hookfuse.app.web import WebSettings, make_app
from hookfuse.config import Settings
from hookfuse.core import member
from hookfuse.dashboard import Live
from hookfuse.delivery.courier import Attempted
from hookfuse.telemetry import Observer

_log = logging.getLogger("hookfuse.app")

_KILLED = 130

Around: TypeAlias = Callable[[Station, ASGIApp], ASGIApp]
"""Puts something around what is served; called once, when the station is open and before anything is delivered."""


class Part(StrEnum):
    """Which parts of the service a process runs."""

    SERVE = "serve"
    API = "api"
    WORKER = "worker"


_PARTS = {
    Part.SERVE: (member.Part.API, member.Part.WORKER),
    Part.API: (member.Part.API,),
    Part.WORKER: (member.Part.WORKER,),
}


class Service:
    """One process. `started` is called when it takes requests, `changed` for each transition that it learns of."""

    def __init__(
        self,
        settings: Settings,
        part: Part,
        sock: socket.socket | None,
        started: Callable[[Started], None] = lambda started: None,
        around: Around = lambda station, served: served,
        *,
        heeds_signals: bool = True,
        changed: Observer = lambda transition: None,
    ) -> None:
        self._settings = settings
        self._part = part
        self._sock = sock
        self._started = started
        self._around = around
        self._heeds_signals = heeds_signals
        self._changed = changed
        self._stop = asyncio.Event()

    async def run(self) -> None:
        prepare_process()
        metrics, events, live = Metrics(), EventLog(self._settings), Live()
        own = None if self._sock is None else self._sock.getsockname()[:2]
        station = Station(
            station_settings(self._settings, own),
            on_attempt=_each(events.attempted, metrics.attempted, live.ring, attempt_spans()),
            on_lost=metrics.lost,
            on_suspect=_say_suspect,
            on_transition=events.changed,
            on_failing=events.failing,
            on_notice=metrics.told,
        )
        with self._heeding_signals():
            async with station, AsyncExitStack() as stack:
                await check_master_key(station, self._settings)
                admin_key = None if self._part is Part.WORKER else await make_first_key(station.store)
                for observer in (metrics.changed, live.ring, self._changed):
                    stack.callback(station.breakers.subscribe(observer).close)
                health = Health(station, delivers=self._part is not Part.API)
                heartbeat = await stack.enter_async_context(Heartbeat(station, health, _PARTS[self._part]))
                await stack.enter_async_context(station.leader)
                await stack.enter_async_context(Alarm(station.store, health))
                watcher = await stack.enter_async_context(Watcher(station, health, metrics))
                surface = await self._surface(station, Surface(health, metrics, live), watcher)
                await self._work(station, heartbeat, surface, Started(own, admin_key))

    def stop(self) -> None:
        """Come to an orderly end; asked twice, end at once."""
        if self._stop.is_set():
            os._exit(_KILLED)
        self._stop.set()

    async def _surface(self, station: Station, surface: Surface, watcher: Watcher) -> Surface:
        """With all that this part serves."""
        if self._part is Part.WORKER:
            return surface
        settings = self._settings
        surface.api = make_app(
            station, settings=WebSettings(settings.payload_limit, settings.rate_limit), watch=watcher
        )
        password_key = await keep_password_key(settings, station)
        if settings.dashboard:
            surface.dashboard = make_dashboard(settings, station, surface.api, surface.live, password_key)
        return surface

    async def _work(self, station: Station, heartbeat: Heartbeat, surface: Surface, started: Started) -> None:
        server = self._server(station, surface)
        parts: list[asyncio.Task[None]] = []
        if server is not None:
            parts.append(asyncio.create_task(server.serve(sockets=[server.sock]), name="hookfuse-api"))
            await _first(server.ready.wait(), parts[0])
        if self._part is not Part.API:
            parts.append(asyncio.create_task(station.worker.run(), name="hookfuse-worker"))
        try:
            self._started(started)
            await _first(self._stop.wait(), *parts)
        finally:
            _log.info("stopping; %d requests are in flight", station.worker.in_hand)
            heartbeat.drain()
            station.worker.stop()
            surface.live.close()
            if server is not None:
                server.should_exit = True
            # A part that ended by itself takes the others with it, and its error is this process's.
            await asyncio.gather(*parts)

    def _server(self, station: Station, surface: Surface) -> _Server | None:
        if self._sock is None:
            return None
        served = self._around(station, surface)
        if surface.dashboard is not None and served is not surface:
            surface.dashboard.beside = served
        ingest = None if surface.api is None else surface.api.ingest
        grace = max(1, int(self._settings.worker_grace))
        return _Server(server_config(served, ingest, surface.answered, grace=grace), self._sock)

    @contextmanager
    def _heeding_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        heeded = (signal.SIGINT, signal.SIGTERM) if self._heeds_signals else ()
        for number in heeded:
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in heeded:
                loop.remove_signal_handler(number)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, sock: socket.socket) -> None:
        super().__init__(config)
        self.sock = sock
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the service's: the worker has to end with the server."""
        yield


async def _first(event: Coroutine[Any, Any, Any], *tasks: asyncio.Task[None]) -> None:
    """Wait for the event, or for the end of a task."""
    waiting = asyncio.ensure_future(event)
    await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _each(*observers: Callable[[Attempted], None] | None) -> Callable[[Attempted], None]:
    wanted = [each for each in observers if each is not None]

    def tell(attempted: Attempted) -> None:
        for observer in wanted:
            observer(attempted)

    return tell


def _say_suspect(suspect: bool) -> None:
    if suspect:
        _log.error("nearly every endpoint fails without a response: this machine's network is suspect")
    else:
        _log.warning("an endpoint answered: the network of this machine is no longer suspect")
