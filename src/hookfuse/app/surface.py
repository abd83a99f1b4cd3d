"""What a process serves on its port: the API, the dashboard, and beside them health and metrics, which need no key."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from hookfuse.api.table import Api, path_refused
from hookfuse.app.health import Health
from hookfuse.app.metrics import CONTENT_TYPE, Metrics
from hookfuse.dashboard import Dashboard, Live

_OWN = frozenset({"/healthz", "/readyz", "/metrics"})
_UNAVAILABLE = 503
_LOOKING = frozenset({"GET", "HEAD", "OPTIONS"})


class Surface:
    """An ASGI application: ours for health and metrics, `dashboard` for its pages, `api` for everything else.

    It counts what the API answered, and tells open pages when something was changed through it.
    """

    def __init__(self, health: Health, metrics: Metrics, live: Live) -> None:
        self.api: Api | None = None
        self.dashboard: Dashboard | None = None
        self.live = live
        self._health = health
        self._metrics = metrics
        self._own = Starlette(
            routes=[
                Route("/healthz", self._alive),
                Route("/readyz", self._ready),
                Route("/metrics", self._page),
            ],
            exception_handlers={HTTPException: path_refused},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        api = self.api or self._own
        if scope["type"] != "http":
            await api(scope, receive, send)
        elif scope["path"] in _OWN:
            await self._own(scope, receive, send)
        elif self.dashboard is not None and _is_page(scope["path"]):
            await self.dashboard(scope, receive, send)
        else:
            await api(scope, receive, self._counting(send, changes=scope["method"] not in _LOOKING))

    def answered(self, status: int, *, changes: bool = True) -> None:
        """The API has answered a request, which may have changed something."""
        self._metrics.answered(status)
        if changes:
            self.live.ring()

    def _counting(self, send: Send, *, changes: bool) -> Send:
        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answered(message["status"], changes=changes)
            await send(message)

        return counting

    async def _alive(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, request: Request) -> Response:
        found = await self._health.readiness()
        body: MutableMapping[str, Any] = {"status": "ready" if found.ready else "not ready", **asdict(found)}
        del body["ready"]
        if self._health.stopping:
            body["status"] = "stopping"
        return JSONResponse(body, 200 if found.ready else _UNAVAILABLE, headers={"cache-control": "no-store"})

    async def _page(self, request: Request) -> Response:
        return Response(self._metrics.page(await self._health.readings()), media_type=CONTENT_TYPE)


def _is_page(path: str) -> bool:
    return path in ("/", "/dashboard") or path.startswith("/dashboard/")
