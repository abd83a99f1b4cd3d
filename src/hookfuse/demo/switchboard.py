"""Break and heal receivers over REST: `/demo/receivers`, for the pages of the dashboard and for curl.

    GET   /demo/receivers                                     all of them, with how they behave and what they counted
    POST  /demo/receivers  {"name": …, "behaviour": "dead"}   from the next request on; answers with that receiver

It needs no key: it is there only in the demo, answers only this machine under a name of this machine, and changes
things only for pages that it served itself, or for clients that are no browser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hookfuse.demo.receivers import CAST, Conduct, DemoReceivers

PATH = "/demo/receivers"

_OWN_NAMES = frozenset({"127.0.0.1", "localhost", "::1"})
_OWN_PAGES = frozenset({"same-origin", "none"})
_MOST_BYTES = 4_096


class Switchboard:
    """An ASGI application: ours at `/demo/receivers`, `inner` for everything else."""

    def __init__(self, inner: ASGIApp, receivers: DemoReceivers) -> None:
        self._inner = inner
        self._receivers = receivers
        self._app_id: str | None = None
        self._endpoint_ids: Mapping[str, str] = {}
        self._own = Starlette(routes=[Route(PATH, self._show), Route(PATH, self._change, methods=["POST"])])

    def know(self, app_id: str, endpoint_ids: Mapping[str, str]) -> None:
        """The application, and its endpoints by the receivers' names."""
        self._app_id, self._endpoint_ids = app_id, endpoint_ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ours = scope["type"] == "http" and scope["path"] == PATH
        await (self._own if ours else self._inner)(scope, receive, send)

    async def _show(self, request: Request) -> Response:
        if (refusal := _refusal(request)) is not None:
            return refusal
        return JSONResponse({"data": [self._told(name) for name in CAST], "behaviours": list(Conduct)})

    async def _change(self, request: Request) -> Response:
        if (refusal := _refusal(request)) is not None:
            return refusal
        try:
            body = json.loads(await _body(request))
            name, conduct = str(body["name"]), Conduct(body["behaviour"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return _problem(422, "validation_error", f"Send name and behaviour, one of {', '.join(Conduct)}.")
        if name not in CAST:
            return _problem(404, "not_found", f"There is no such receiver; there are {', '.join(CAST)}.")
        self._receivers.change(name, conduct)
        return JSONResponse(self._told(name))

    def _told(self, name: str) -> dict[str, Any]:
        counts = self._receivers.counts(name)
        return {
            "name": name,
            "behaviour": self._receivers.conduct(name),
            "url": self._receivers.url(name),
            "appId": self._app_id,
            "endpointId": self._endpoint_ids.get(name),
            "requests": counts.requests,
            "inFlight": counts.in_flight,
            "answers": {str(status): number for status, number in sorted(counts.answers.items())},
        }


async def _body(request: Request) -> bytes:
    found = b""
    async for part in request.stream():
        found += part
        if len(found) > _MOST_BYTES:
            raise ValueError("more than anyone needs to say here")
    return found


def _refusal(request: Request) -> Response | None:
    """Why a request is not answered. A foreign page may be shown under our address, so the name counts as well."""
    if request.client is None or not ip_address(request.client.host).is_loopback:
        return _problem(403, "not_local", "Only this machine may ask for that.")
    host = request.headers.get("host", "")
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    if name not in _OWN_NAMES:
        return _problem(403, "not_local", "Ask for it by the address of this machine.")
    origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
    if (origin is not None and origin != f"http://{host}") or (site is not None and site not in _OWN_PAGES):
        return _problem(403, "not_same_origin", "Another site's page may not do that.")
    return None


def _problem(status: int, code: str, sentence: str) -> Response:
    body = {"title": "Refused", "status": status, "code": code, "detail": sentence}
    return JSONResponse(body, status, media_type="application/problem+json")
