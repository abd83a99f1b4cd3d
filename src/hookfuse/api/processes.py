"""Processes: who is in the fleet, how each one does, and who fell silent."""

from __future__ import annotations

from collections.abc import Iterable

from hookfuse.api.call import Call
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Instant, Wire, instant
from hookfuse.core.duty import Duty, Tenure
from hookfuse.core.member import Member, Part, Presence, Sharing, in_order

routes = Routes("Processes")


class ProcessOut(Wire):
    """A process as it last said that it is."""

    name: str
    """What duties are held by: its machine, its number there, and a few signs of its own."""
    host: str
    pid: int
    version: str
    parts: list[Part]
    """What it does."""
    state: Presence
    """Silent: it was killed, or is cut off from the database. It has said nothing since `heardAt`."""
    started_at: Instant
    heard_at: Instant
    in_hand: int
    """Requests in flight there."""
    slots: int
    """The most that there may be; 0: it does not deliver."""
    breakers: Sharing
    """Whose breakers it works with; degraded: its own, because Redis is away."""
    suspect: bool
    """Whether nearly every endpoint fails there without a response, so that the fault is taken to be its network's."""
    leads: list[Duty]
    """The duties that it does for the fleet."""


class ProcessesOut(Wire):
    """Those that are heard of, by host and number; then the silent ones, the last to fall silent first."""

    data: list[ProcessOut]


@routes.get("/processes", needs=Needs.OVERVIEW)
async def list_processes(call: Call) -> ProcessesOut:
    """List the processes of the fleet. One that ended in order is gone, a silent one is forgotten after an hour."""
    members, duties = await call.parts.store.members(), await call.parts.store.duties()
    return ProcessesOut(data=[_told(each, duties) for each in in_order(members)])


def _told(member: Member, duties: Iterable[Tenure]) -> ProcessOut:
    said = member.report
    return ProcessOut(
        name=said.name,
        host=said.host,
        pid=said.pid,
        version=said.version,
        parts=list(said.parts),
        state=member.presence,
        started_at=instant(member.started_ms),
        heard_at=instant(member.heard_ms),
        in_hand=said.in_hand,
        slots=said.slots,
        breakers=said.breakers,
        suspect=said.suspect,
        leads=[each.duty for each in duties if each.holder == said.name],
    )
