"""The routes of the pages, and the headers of every answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import NamedTuple, TypeAlias

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hookfuse.dashboard import acting, entrance
from hookfuse.dashboard.client import Answer, ApiClient, Call, Refused
from hookfuse.dashboard.entrance import Entrance
from hookfuse.dashboard.live import Live
from hookfuse.dashboard.origins import is_exposed, is_own_page
from hookfuse.dashboard.pages import PAGES, series
from hookfuse.dashboard.sessions import Session, Sessions
from hookfuse.dashboard.statics import PATH as STATIC
from hookfuse.dashboard.statics import Statics
from hookfuse.dashboard.views import Views
from hookfuse.dashboard.visits import Owner, Visit
from hookfuse.ports import Sealer

_log = logging.getLogger("hookfuse.dashboard")

Handler: TypeAlias = Callable[[Visit], Awaitable[Response]]

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
# Over plain HTTP to another machine browsers do not heed it, and complain.
_TRUSTED_HEADERS = {"cross-origin-opener-policy": "same-origin"}
_NO_STORE = "no-store"


class Setting(NamedTuple):
    """A setting of the process, as people may see it."""

    variable: str
    value: str
    says: str


@dataclass(frozen=True, slots=True)
class Furnishing:
    """What the pages work with. Whoever puts the program together fills it in."""

    api: ASGIApp
    sealer: Sealer
    live: Live
    settings: tuple[Setting, ...] = ()
    password: str | None = None
    password_key: str | None = None
    """The API key that the password stands for."""


class Dashboard:
    """The pages, as an ASGI application for `/` and all below `/dashboard`."""

    def __init__(self, furnishing: Furnishing) -> None:
        statics = Statics()
        self.live = furnishing.live
        self.beside: ASGIApp | None = None
        """What serves the pages, if that is more than the service itself."""
        self._client = ApiClient(furnishing.api)
        self._views = Views(statics)
        self._entrance = Entrance(
            self._client, Sessions(furnishing.sealer), self._views, furnishing.password, furnishing.password_key
        )
        self._version = version("hookfuse")
        pages = [Route(path, self._visited(handler), methods=["GET"]) for path, handler in PAGES.items()]
        self._app = Starlette(
            routes=[
                Route("/", _home, methods=["GET"]),
                Route(entrance.PATH, self._entrance.show, methods=["GET"]),
                Route(entrance.PATH, self._entrance.enter, methods=["POST"]),
                Route("/dashboard/logout", self._leave, methods=["POST"]),
                Route("/dashboard/live", self._visited(self._follow), methods=["GET"]),
                Route("/dashboard/series/overview", self._visited(series.overview), methods=["GET"]),
                Route("/dashboard/series/{app}/{endpoint}", self._visited(series.endpoint), methods=["GET"]),
                Route("/dashboard/action/{name}", self._visited(acting.act), methods=["POST"]),
                Route(f"{STATIC}/{{version}}/{{name:path}}", statics.serve, methods=["GET"]),
                *pages,
                Route("/dashboard/{rest:path}", self._visited(_nothing), methods=["GET"]),
            ],
        )
        self._app.state.settings = furnishing.settings
        self._app.router.redirect_slashes = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS if is_exposed(Request(scope)) else _HEADERS | _TRUSTED_HEADERS)
                headers.setdefault("cache-control", _NO_STORE)
            await send(message)

        await self._app(scope, receive, guarded)

    def _visited(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """A page that needs a session whose key is good."""

        async def answer(request: Request) -> Response:
            session = self._entrance.session(request)
            owner = None if session is None else await self._owner(session)
            if session is None or owner is None:
                return self._entrance.turn_away(request)
            visit = Visit(request, session, owner, self._client, self._views, self._version, self.beside)
            try:
                return await handler(visit)
            except Refused as refused:
                return self._refused(visit, refused)

        return answer

    async def _owner(self, session: Session) -> Owner | None:
        answer = await self._client.send(session.key, Call("GET", "/key/self"))
        if answer.status == 401:
            return None
        if not answer.ok:
            # The database is away: whoever has a session is told so, and sees nothing else.
            return Owner("", "", "read", None)
        found = answer.data
        return Owner(found["id"], found["name"], found["role"], found["appId"])

    def _refused(self, visit: Visit, refused: Refused) -> Response:
        if refused.status == 401:
            return self._entrance.turn_away(visit.request)
        if visit.request.url.path.startswith("/dashboard/series"):
            return JSONResponse({}, refused.status)
        return visit.page("error.html", "", status=refused.status, code=refused.status, faults=refused.faults)

    async def _leave(self, request: Request) -> Response:
        # Whoever is logged out by another page loses nothing but a click; still, it is not theirs to do.
        if not is_own_page(request):
            return RedirectResponse(entrance.HOME, 303)
        return await self._entrance.leave(request, self._entrance.session(request))

    async def _follow(self, visit: Visit) -> Response:
        if self.live.full:
            return Response("Too many pages are open.", 503, {"retry-after": "10"}, media_type="text/plain")

        async def welcome() -> bool:
            session = self._entrance.session(visit.request)
            return session is not None and await self._owner(session) is not None

        headers = {"cache-control": _NO_STORE, "x-accel-buffering": "no"}
        return StreamingResponse(self.live.stream(welcome), media_type="text/event-stream", headers=headers)


async def _nothing(visit: Visit) -> Response:
    raise Refused(Answer(404, {"detail": "There is no such page."}))


async def _home(request: Request) -> Response:
    return RedirectResponse(entrance.HOME, 303)
