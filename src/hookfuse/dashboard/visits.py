"""A request with a session: who asks, what they may, and what they are shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp

from hookfuse.dashboard.client import Answer, ApiClient, Call, Refused, at
from hookfuse.dashboard.curls import curl
from hookfuse.dashboard.origins import is_exposed
from hookfuse.dashboard.sessions import Session
from hookfuse.dashboard.views import Views

THEME_COOKIE = "hookfuse-theme"
_THEMES = ("light", "dark")
_MOST_APPS = "250"


class Place(NamedTuple):
    """An entry of the navigation."""

    name: str
    title: str
    path: str
    shortcut: str


PLACES = (
    Place("overview", "Overview", "/dashboard", "o"),
    Place("endpoints", "Endpoints", "/dashboard/endpoints", "e"),
    Place("deliveries", "Deliveries", "/dashboard/deliveries", "d"),
    Place("failed", "Failed", "/dashboard/failed", "f"),
    Place("workers", "Workers", "/dashboard/workers", "w"),
    Place("audit", "Audit log", "/dashboard/audit", "a"),
    Place("settings", "Settings", "/dashboard/settings", "s"),
)
_OF_ALL = frozenset({"overview", "workers"})
"""Places that tell of all applications at once."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The key that a visitor logged in with, as the API tells it."""

    id: str
    name: str
    role: str
    app_id: str | None

    @property
    def writes(self) -> bool:
        return self.role != "read"

    @property
    def admin(self) -> bool:
        return self.role == "admin"


class Visit:
    def __init__(
        self,
        request: Request,
        session: Session,
        owner: Owner,
        client: ApiClient,
        views: Views,
        version: str,
        beside: ASGIApp | None = None,
    ) -> None:
        self.request = request
        self.session = session
        self.owner = owner
        self.beside = beside
        self._client = client
        self._views = views
        self._version = version

    @property
    def path(self) -> Mapping[str, str]:
        return self.request.path_params

    @property
    def query(self) -> dict[str, str]:
        """What was asked for; empty fields of a form are not."""
        return {name: value for name, value in self.request.query_params.items() if value}

    @property
    def places(self) -> list[Place]:
        return [each for each in PLACES if self.owner.app_id is None or each.name not in _OF_ALL]

    async def get(self, *steps: str, **query: str) -> Any:
        return await self._client.get(self.session.key, at(*steps), query)

    async def get_all(self, *paths: tuple[str, ...]) -> list[Any]:
        """Several at once."""
        return list(await asyncio.gather(*(self.get(*path) for path in paths)))

    async def try_get(self, *steps: str, **query: str) -> Any:
        """None if there is no such thing, or not for this visitor."""
        try:
            return await self.get(*steps, **query)
        except Refused as refused:
            if refused.status in (403, 404):
                return None
            raise

    async def payload(self, app: str, message_id: str) -> str:
        return await self._client.payload(self.session.key, at("app", app, "msg", message_id))

    async def send(self, call: Call) -> Answer:
        return await self._client.send(self.session.key, call)

    async def applications(self) -> list[Any]:
        """Those to choose from; of a key of one application, that one."""
        if self.owner.app_id is not None:
            return [await self.get("app", self.owner.app_id)]
        found: list[Any] = (await self.get("app", limit=_MOST_APPS))["data"]
        return found

    def curl(self, call: Call) -> str:
        return curl(call, str(self.request.base_url).rstrip("/"))

    def link(self, **changes: str | None) -> str:
        """This page with some of its filters changed; None takes one away."""
        kept = {**self.query, **changes}
        query = urlencode({name: value for name, value in kept.items() if value})
        return f"{self.request.url.path}?{query}" if query else self.request.url.path

    def page(self, template: str, place: str, *, status: int = 200, **values: Any) -> Response:
        """A whole page."""
        theme = self.request.cookies.get(THEME_COOKIE)
        known = {
            "place": place,
            "places": self.places,
            "theme": theme if theme in _THEMES else "auto",
            "exposed": is_exposed(self.request),
            "version": self._version,
            "here": self.link(),
        }
        return HTMLResponse(self._render(template, **known, **values), status)

    def fragment(
        self, template: str, *, status: int = 200, headers: dict[str, str] | None = None, **values: Any
    ) -> Response:
        """A part of a page."""
        return HTMLResponse(self._render(template, **values), status, headers)

    def _render(self, template: str, **values: Any) -> str:
        return self._views.render(template, visit=self, owner=self.owner, token=self.session.token, **values)
