"""The REST API over a station, as an ASGI application."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hookfuse.app.station import Station


@dataclass(frozen=True, slots=True)
class WebSettings:
    """How the API behaves."""

    payload_limit: int = 256 * 1024
    """The most bytes that a message may carry."""


def make_app(station: Station, *, settings: WebSettings) -> Starlette:
    """The API of a station that someone else opens and closes."""
    return Starlette(routes=[Route("/api/v1/health", _health, methods=["GET", "HEAD"])])


async def _health(request: Request) -> Response:
    return Response(status_code=204)
