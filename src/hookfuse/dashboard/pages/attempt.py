"""One attempt: what was sent and what came back, for a row that is opened."""

from __future__ import annotations

from starlette.responses import Response

from hookfuse.dashboard.curls import delivery_curl
from hookfuse.dashboard.visits import Visit


async def show(visit: Visit) -> Response:
    at = ("app", visit.path["app"], "msg", visit.path["message"])
    attempt, message = await visit.get_all((*at, "attempt", visit.path["attempt"]), at)
    payload = await visit.payload(visit.path["app"], visit.path["message"])
    return visit.fragment(
        "attempt.html",
        attempt=attempt,
        message_app=visit.path["app"],
        payload=payload,
        request_curl=delivery_curl(attempt["url"], message["id"], payload),
    )
