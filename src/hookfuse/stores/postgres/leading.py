"""The part of the store that whoever leads uses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from hookfuse.core.duty import Duty, Tenure
from hookfuse.stores.postgres import duties
from hookfuse.stores.postgres.connections import Job

T = TypeVar("T")


class Leading:
    """Each method is one transaction."""

    async def hold_duties(self, asked: Sequence[Duty], holder: str, lease_ms: int) -> Sequence[Tenure]:
        return await self._alone(lambda db: duties.hold(db, asked, holder, lease_ms))

    async def give_up_duties(self, holder: str) -> None:
        await self._alone(lambda db: duties.give_up(db, holder))

    async def duties(self) -> Sequence[Tenure]:
        return await self._alone(duties.held)

    async def _alone(self, job: Job[T]) -> T:
        raise NotImplementedError

    async def _together(self, job: Job[T]) -> T:
        raise NotImplementedError
