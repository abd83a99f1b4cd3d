"""What a fleet needs of a store to know its processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookfuse.core.member import Member, Report


class Members(Protocol):
    async def report_in(self, report: Report, *, age_ms: int) -> None:
        """Keep what a process that has run for so long says of itself, instead of what it said before."""
        ...

    async def sign_off(self, name: str) -> None:
        """It ends in order, so nobody need wonder where it is."""
        ...

    async def members(self) -> Sequence[Member]:
        """All that are not forgotten, in no particular order."""
        ...
