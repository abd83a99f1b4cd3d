"""Closes breakers that guard nobody any more: their endpoints were deleted, or have another one.

Nobody can name such a breaker, so it would be listed, counted, and put back after a loss of Redis, for good. Whoever
deletes an endpoint closes its breaker at once. What a crash, an outage or a late answer leaves behind is found by
`reconcile.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.history import UNGUARDED
from hookfuse.delivery.keeper import keep_standing
from hookfuse.ports import DeliveryStore

_PAGE: Final = 500


async def forget_breakers(store: DeliveryStore, breakers: AsyncBreakers, keys: Sequence[str], *, actor: str) -> int:
    """Of these, close those that guard nobody; returns how many."""
    count = 0
    for at in range(0, len(keys), _PAGE):
        for key in await store.unguarded(keys[at : at + _PAGE]):
            await breakers.reset(key, reason=UNGUARDED, actor=actor)
            await keep_standing(store, breakers, key)
            count += 1
    return count
