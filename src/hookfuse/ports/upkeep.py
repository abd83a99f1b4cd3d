"""What operators' tools need of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookfuse.core.upkeep import Applied, Backlog, Sealed


class Upkeep(Protocol):
    async def backlog(self) -> Backlog:
        """Counts what waits, and nothing of what has ended."""
        ...

    async def sealed_page(self, after: str, limit: int) -> Sequence[Sealed]:
        """By the endpoint's id, deleted ones too, so that no seal of an old key is left."""
        ...

    async def reseal(self, before: Sealed, after: Sealed) -> bool:
        """Replace seals by others of the same content; False: they were changed meanwhile, and stay as they are."""
        ...

    async def applied_migrations(self) -> Sequence[Applied]: ...
