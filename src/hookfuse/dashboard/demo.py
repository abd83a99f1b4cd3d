"""The receivers of `hookfuse demo`, if that is what serves: an endpoint's page breaks and heals its own."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.types import ASGIApp

from hookfuse.dashboard.client import Call, ask

_PATH = "/demo/receivers"


async def receiver_of(served: ASGIApp | None, request: Request, endpoint_id: str) -> Any:
    """The simulated receiver of an endpoint, as the demo tells it; None: it has none, or this is no demo."""
    if served is None or request.client is None:
        return None
    # The demo answers only this machine, by its own name, so it is asked in the visitor's name.
    host = request.headers.get("host", "").encode("latin-1")
    answer = await ask(served, Call("GET", _PATH), [(b"host", host)], (request.client.host, request.client.port))
    if not answer.ok:
        return None
    return next((each for each in answer.data["data"] if each["endpointId"] == endpoint_id), None)
