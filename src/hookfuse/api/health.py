"""Whether the API is there. Readiness, with what it depends on, is told elsewhere."""

from __future__ import annotations

from hookfuse.api.call import Call
from hookfuse.api.routes import Needs, Routes

routes = Routes("Health")


@routes.get("/health", needs=Needs.NOTHING, status=204)
async def get_health(call: Call) -> None:
    """Answer, if the API is there."""
