"""Doing something to many deliveries: count first, then page by page, to be stopped at any time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from hookfuse.core.delivery import Chosen, Place
from hookfuse.ports import Desk

_PAGE = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """So far: how many were looked at, and how many of them changed."""

    seen: int
    changed: int


async def retry_chosen(desk: Desk, chosen: Chosen) -> AsyncIterator[Progress]:
    """Retry the chosen deliveries, oldest first; leave the loop to stop half-way. See `Desk.count` for how many."""
    async for progress in _walk(desk, chosen, desk.retry):
        yield progress


async def cancel_chosen(desk: Desk, chosen: Chosen) -> AsyncIterator[Progress]:
    async for progress in _walk(desk, chosen, desk.cancel):
        yield progress


async def _walk(
    desk: Desk, chosen: Chosen, change: Callable[[Sequence[Place]], Awaitable[int]]
) -> AsyncIterator[Progress]:
    seen = changed = 0
    after: Place | None = None
    # By place and not by offset: what is changed leaves the chosen ones, and nothing may be passed over.
    while page := await desk.deliveries(chosen, after=after, limit=_PAGE):
        places = [Place(each.message_id, each.endpoint_id) for each in page]
        changed += await change(places)
        seen += len(page)
        after = places[-1]
        yield Progress(seen, changed)
