"""Transitions: what breakers did, kept for as long as messages are."""

from __future__ import annotations

from hookfuse.api.breaker_models import TransitionOut, transition_told
from hookfuse.api.call import Call, Reader
from hookfuse.api.routes import Needs, Routes
from hookfuse.api.wire import Iterator, Limit, Page, Wire
from hookfuse.core.history import Entry
from hookfuse.core.paging import Mark

routes = Routes("Breakers")


class TransitionsQuery(Wire, rename=None):
    limit: Limit = 50
    iterator: Iterator | None = None


@routes.get("/transition", needs=Needs.OVERVIEW)
async def list_all_transitions(call: Call, query: TransitionsQuery) -> Page[TransitionOut]:
    """List what the breakers of all applications did, newest first."""
    return await _list(call, query, "transitions")


@routes.get("/app/{app_id}/transition")
async def list_transitions(call: Call, query: TransitionsQuery) -> Page[TransitionOut]:
    """List what the breakers of an application did, newest first."""
    return await _list(call, query, f"transitions {call.app.id}", app_id=call.app.id)


@routes.get("/app/{app_id}/breaker/{endpoint_id}/transition")
async def list_breaker_transitions(call: Call, query: TransitionsQuery) -> Page[TransitionOut]:
    """List what the breaker of an endpoint did, newest first."""
    key = (await call.endpoint()).key
    return await _list(call, query, f"transitions {key}", key=key)


async def _list(
    call: Call, query: TransitionsQuery, about: str, *, app_id: str | None = None, key: str | None = None
) -> Page[TransitionOut]:
    reader = Reader(call, about, limit=query.limit, iterator=query.iterator, newest_first=True)
    found = await call.parts.store.transitions_page(reader.span, app_id=app_id, key=key)
    return reader.page(found, _mark, transition_told)


def _mark(entry: Entry) -> Mark:
    return Mark(entry.transition.generation, entry.transition.key)
