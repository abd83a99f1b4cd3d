"""How the service does, over all applications: now, and in the last hour.

The numbers are those of `/readyz` and `/metrics`, read by whoever puts the program together (`Watch`).
"""

from __future__ import annotations

from hookfuse.api.call import Call
from hookfuse.api.conditions import count_conditions
from hookfuse.api.overview_models import OverviewOut, SeriesOut
from hookfuse.api.routes import Needs, Routes

routes = Routes("Overview")


@routes.get("/overview", needs=Needs.OVERVIEW)
async def get_overview(call: Call) -> OverviewOut:
    """How the service does now: what `/readyz` and `/metrics` say, and rates of the last five minutes."""
    seen = await call.parts.watch.overview()
    seen.conditions = await count_conditions(call, seen.endpoints)
    return seen


@routes.get("/overview/series", needs=Needs.OVERVIEW)
async def get_overview_series(call: Call) -> SeriesOut:
    """How it did in the last hour, as far as this process has seen it."""
    return await call.parts.watch.series()
