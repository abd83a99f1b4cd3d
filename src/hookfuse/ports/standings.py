"""What keeping breakers' standings needs of a delivery store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookfuse.core.duty import Tenure
from hookfuse.core.standing import Memory, Standing


class Standings(Protocol):
    async def standings(self) -> Sequence[Standing]: ...

    async def keep_standings(
        self, kept: Sequence[Standing], gone: Sequence[Standing] = (), *, tenure: Tenure | None = None
    ) -> None:
        """Write these unless a newer one is there, and forget those unless they have changed."""
        ...

    async def breaker_memory(self) -> Memory: ...

    async def keep_breaker_memory(self, memory: Memory, *, tenure: Tenure | None = None) -> None:
        """The generation never goes back."""
        ...
