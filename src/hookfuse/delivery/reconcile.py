"""Finds what nobody finished, because every process that could have has died.

The breakers know their last transition, and the database knows the last one that is kept. Where the two differ for two
looks in a row, whoever should have written it is gone, and what the breaker still tells of it is kept. Endpoints that a
breaker disabled and that nobody stopped are stopped, and breakers that guard nobody are closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.duty import Tenure
from hookfuse.core.history import Head, seen
from hookfuse.core.state import CLOSED, Snapshot, Transition
from hookfuse.delivery.forgetting import forget_breakers
from hookfuse.delivery.stopping import stop_left_over
from hookfuse.ports import DeliveryStore
from hookfuse.telemetry import Observer

_PAGE: Final = 500


class Reconciler:
    def __init__(
        self,
        store: DeliveryStore,
        breakers: AsyncBreakers,
        on_kept: Observer = lambda transition: None,
    ) -> None:
        self._store = store
        self._breakers = breakers
        self._on_kept = on_kept
        self._missing: dict[str, int] = {}

    async def look(self, tenure: Tenure | None = None) -> int:
        """Compare once; returns how many transitions were found missing for the second time, and kept."""
        if self._breakers.degraded:
            return 0
        listed: dict[str, Snapshot] = {}
        async for snapshot in self._breakers.unhealthy():
            if snapshot.generation:
                listed[snapshot.key] = snapshot
        missing = [*await self._unknown(listed), *await self._recovered(listed)]
        before, self._missing = self._missing, {made.key: made.generation for made in missing}
        lost = [made for made in missing if before.get(made.key) == made.generation]
        new = await self._store.keep_transitions(lost) if lost else []
        for each in new:
            self._on_kept(each)
        # Afterwards: it goes by what is kept.
        await stop_left_over(self._store, self._breakers, tenure)
        await forget_breakers(self._store, self._breakers, sorted(listed), actor="breaker")
        return len(new)

    async def _unknown(self, listed: dict[str, Snapshot]) -> list[Transition]:
        """Of breakers that are not closed."""
        found = []
        keys = sorted(listed)
        for at in range(0, len(keys), _PAGE):
            page = keys[at : at + _PAGE]
            heads = _by_key(await self._store.heads(page))
            found += [made for key in page if (made := _news(listed[key], heads.get(key))) is not None]
        return found

    async def _recovered(self, listed: dict[str, Snapshot]) -> list[Transition]:
        """Of breakers that closed."""
        found = []
        after = ""
        while page := await self._store.unhealthy_heads(after, _PAGE):
            for head in page:
                if head.key not in listed:
                    made = _news(await self._breakers.inspect(head.key), head)
                    found += [] if made is None else [made]
            after = page[-1].key
        return found


def _by_key(heads: Iterable[Head]) -> dict[str, Head]:
    return {head.key: head for head in heads}


def _news(snapshot: Snapshot, head: Head | None) -> Transition | None:
    if head is None:
        return seen(snapshot, CLOSED)
    return seen(snapshot, head.state) if snapshot.generation > head.generation else None
