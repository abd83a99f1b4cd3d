"""The part of the store that whoever leads uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import apsw

from hookfuse.core.duty import Duty, Tenure
from hookfuse.stores.sqlite import duties

T = TypeVar("T")


class Leading:
    """Each method is one job of the reader or the writer."""

    async def hold_duties(self, asked: Sequence[Duty], holder: str, lease_ms: int) -> Sequence[Tenure]:
        return await self._write(lambda db, now: duties.hold(db, asked, holder, lease_ms, now))

    async def give_up_duties(self, holder: str) -> None:
        await self._write(lambda db, now: duties.give_up(db, holder, now))

    async def duties(self) -> Sequence[Tenure]:
        return await self._read(lambda db: duties.held(db, self._now_ms()))

    async def _read(self, job: Callable[[apsw.Connection], T]) -> T:
        raise NotImplementedError

    async def _write(self, job: Callable[[apsw.Connection, int], T], *, rings: bool = False) -> T:
        raise NotImplementedError

    def _now_ms(self) -> int:
        raise NotImplementedError
