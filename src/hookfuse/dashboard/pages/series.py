"""Numbers for the plots, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import JSONResponse, Response

from hookfuse.dashboard.visits import Visit
from hookfuse.dashboard.words import instant

_ATTEMPTS = "250"
_MOST_OK = 299


async def overview(visit: Visit) -> Response:
    seen = await visit.get("overview", "series")
    return JSONResponse({**seen, "at": [_unix(each) for each in seen["at"]]})


async def endpoint(visit: Visit) -> Response:
    """The latencies of the last attempts, those that failed apart."""
    found = await visit.get(
        "app", visit.path["app"], "attempt", "endpoint", visit.path["endpoint"], limit=_ATTEMPTS, with_content="false"
    )
    attempts: Sequence[Any] = found["data"][::-1]
    good = [200 <= each["responseStatusCode"] <= _MOST_OK for each in attempts]
    took = [each["responseDurationMs"] / 1000 for each in attempts]
    return JSONResponse(
        {
            "at": [_unix(each["timestamp"]) for each in attempts],
            "okSeconds": [each if ok else None for each, ok in zip(took, good, strict=True)],
            "failedSeconds": [None if ok else each for each, ok in zip(took, good, strict=True)],
        }
    )


def _unix(text: str) -> float:
    found = instant(text)
    assert found is not None
    return found.timestamp()
