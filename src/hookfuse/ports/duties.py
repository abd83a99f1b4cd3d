"""What a leader needs of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookfuse.core.duty import Duty, Tenure


class Duties(Protocol):
    async def hold_duties(self, duties: Sequence[Duty], holder: str, lease_ms: int) -> Sequence[Tenure]:
        """Take those of these duties that nobody holds, and renew one's own; returns what is held now."""
        ...

    async def give_up_duties(self, holder: str) -> None:
        """Others may take them at once."""
        ...

    async def duties(self) -> Sequence[Tenure]:
        """Those that someone holds now, by name."""
        ...
