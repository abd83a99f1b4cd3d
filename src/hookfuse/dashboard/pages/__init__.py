"""The pages, by their paths. Each reads what it shows from the API, all at once, and renders a template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.responses import Response

from hookfuse.dashboard.pages import (
    attempt,
    audit,
    deliveries,
    delivery,
    endpoint,
    endpoints,
    overview,
    settings,
    workers,
)
from hookfuse.dashboard.visits import Visit

PAGES: Mapping[str, Callable[[Visit], Awaitable[Response]]] = {
    "/dashboard": overview.show,
    "/dashboard/endpoints": endpoints.show,
    "/dashboard/endpoints/{app}/{endpoint}": endpoint.show,
    "/dashboard/deliveries": deliveries.show,
    "/dashboard/deliveries/{app}/{message}/{endpoint}": delivery.show,
    "/dashboard/failed": deliveries.show_failed,
    "/dashboard/attempts/{app}/{message}/{attempt}": attempt.show,
    "/dashboard/workers": workers.show,
    "/dashboard/audit": audit.show,
    "/dashboard/settings": settings.show,
}
