"""Duties: who does the work that one process does for the whole fleet."""

from __future__ import annotations

from hookfuse.api.call import Call
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Instant, Wire, instant
from hookfuse.core.duty import Duty

routes = Routes("Duties")


class DutyOut(Wire):
    duty: Duty
    holder: str
    """The process that does it: its machine, its number there, and a few signs of its own."""
    since: Instant
    until: Instant
    """Anyone may take it then, unless its holder has renewed it."""
    fence: int
    """Grows each time the duty changes hands."""


class DutiesOut(Wire):
    """Duties that somebody does now."""

    data: list[DutyOut]


@routes.get("/duties", needs=Needs.OVERVIEW)
async def list_duties(call: Call) -> DutiesOut:
    """List who leads what, and since when. A duty that is missing is done by nobody."""
    held = await call.parts.store.duties()
    return DutiesOut(
        data=[
            DutyOut(
                duty=each.duty,
                holder=each.holder,
                since=instant(each.since_ms),
                until=instant(each.until_ms),
                fence=each.fence,
            )
            for each in held
        ]
    )
