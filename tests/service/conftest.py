"""A whole service in this process, and what the program needs as a process of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn

from hookfuse import Policy, Streak
from hookfuse.api.keys import make_key
from hookfuse.app.protocol import server_config
from hookfuse.app.station import Station, StationSettings
from hookfuse.app.web import WebSettings, make_app
from hookfuse.core.access import Role
from hookfuse.core.addresses import Networks
from hookfuse.core.retry import RetrySchedule
from hookfuse.delivery.notify import NotifySettings
from hookfuse.delivery.notify_addresses import NoticeDefaults
from hookfuse.delivery.targets import Defaults
from hookfuse.delivery.worker import WorkerSettings
from hookfuse.testing.receivers import Receivers, ReceiversProcess
from tests.servers.ports import free_port
from tests.service.programs import environment


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Service:
    """A running service, and short ways to say what tests say often."""

    def __init__(self, station: Station, server: uvicorn.Server, url: str, admin: str) -> None:
        self.station = station
        self.server = server
        self.store = station.store
        self.url = url
        self.admin = admin
        self.client = httpx.AsyncClient(base_url=url, timeout=20)

    async def ask(self, method: str, path: str, json: Any = None, *, key: str | None = None, **more: Any) -> Any:
        """A request with a key (the admin's unless another is given); returns the response."""
        headers = {"authorization": f"Bearer {key or self.admin}", **more.pop("headers", {})}
        return await self.client.request(method, f"/api/v1{path}", json=json, headers=headers, **more)

    async def ok(self, method: str, path: str, json: Any = None, **more: Any) -> Any:
        """The JSON of an answer that must be a success."""
        response = await self.ask(method, path, json, **more)
        assert response.is_success, response.text
        return response.json() if response.content else None

    async def app(self, name: str = "Acme", **more: Any) -> str:
        return str((await self.ok("POST", "/app", {"name": name, **more}))["id"])

    async def endpoint(self, app_id: str, url: str = "https://example.com/hook", **more: Any) -> str:
        return str((await self.ok("POST", f"/app/{app_id}/endpoint", {"url": url, **more}))["id"])

    async def send(self, app_id: str, payload: Any = None, **more: Any) -> str:
        body = {"eventType": "invoice.paid", "payload": payload or {"n": 1}, **more}
        return str((await self.ok("POST", f"/app/{app_id}/msg", body))["id"])

    async def key(self, role: str, app_id: str | None = None) -> str:
        _, text = await make_key(self.store, Role(role), role, app_id)
        return text

    async def until(self, condition: Any) -> Any:
        """Wait until an async function returns something true."""
        async with asyncio.timeout(20):
            while not (found := await condition()):
                await asyncio.sleep(0.01)
        return found


@asynccontextmanager
async def running(
    database: str,
    folder: Path,
    *,
    settings: WebSettings | None = None,
    working: bool = True,
    notices: NoticeDefaults | None = None,
    redis: str | None = None,
    longest_timeout: float = 30.0,
) -> AsyncIterator[Service]:
    """A service on a free port."""
    chosen = StationSettings(
        database,
        folder / "master.key",
        redis,
        networks=Networks(allowed=("127.0.0.0/8",)),
        worker=WorkerSettings(poll=0.05, grace=5, longest_timeout=longest_timeout),
        defaults=Defaults(policy=Policy(trip=Streak(3), cool_off=60), retry=RetrySchedule(delays=(0.05, 0.05))),
        notices=notices or NoticeDefaults(),
        notify=NotifySettings(poll=0.05),
    )
    station = Station(chosen)
    async with station, station.leader:
        _, admin = await make_key(station.store, Role.ADMIN, "first")
        app = make_app(station, settings=settings or WebSettings())
        config = server_config(app, app.ingest)
        config.port = port = free_port()
        server = uvicorn.Server(config)
        tasks = [asyncio.create_task(server.serve())]
        if working:
            tasks.append(asyncio.create_task(station.worker.run()))
        while not server.started:
            await asyncio.sleep(0.005)
        service = Service(station, server, f"http://127.0.0.1:{port}", admin)
        try:
            yield service
        finally:
            await service.client.aclose()
            server.should_exit = True
            station.worker.stop()
            await asyncio.gather(*tasks)


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    async with running(f"sqlite://{tmp_path}/hookfuse.db", tmp_path) as found:
        yield found


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[Service]:
    """A service whose worker does not run: what waits stays as it is."""
    async with running(f"sqlite://{tmp_path}/hookfuse.db", tmp_path, working=False) as found:
        yield found


@pytest.fixture
async def receivers() -> AsyncIterator[Receivers]:
    async with Receivers() as found:
        yield found


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """The settings of a program with a data folder of its own."""
    return environment(tmp_path / "data")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where a program writes its log."""
    return tmp_path / "log"


@pytest.fixture
def outside() -> Iterator[ReceiversProcess]:
    """Endpoints in a process of their own, which outlive the program that delivers to them."""
    with ReceiversProcess() as process:
        yield process
