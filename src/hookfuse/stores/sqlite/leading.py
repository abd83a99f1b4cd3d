"""The part of the store that whoever leads uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import apsw

from hookfuse.core.duty import Duty, Tenure
from hookfuse.core.standing import Memory, Standing
from hookfuse.core.tally import Guarded, Seen
from hookfuse.stores.sqlite import duties, standings, tallies

T = TypeVar("T")


class Leading:
    """Each method is one job of the reader or the writer."""

    async def hold_duties(self, asked: Sequence[Duty], holder: str, lease_ms: int) -> Sequence[Tenure]:
        return await self._write(lambda db, now: duties.hold(db, asked, holder, lease_ms, now))

    async def give_up_duties(self, holder: str) -> None:
        await self._write(lambda db, now: duties.give_up(db, holder, now))

    async def duties(self) -> Sequence[Tenure]:
        return await self._read(lambda db: duties.held(db, self._now_ms()))

    async def seen(self, back_ms: int, others: Mapping[str, int]) -> Sequence[Seen]:
        return await self._read(lambda db: tallies.seen(db, back_ms, others, self._now_ms()))

    async def seen_of(self, backs: Mapping[str, int]) -> Sequence[Seen]:
        return await self._read(lambda db: tallies.seen_of(db, backs, self._now_ms())) if backs else []

    async def guarded(self, endpoint_ids: Sequence[str]) -> Sequence[Guarded]:
        return await self._read(lambda db: tallies.guarded(db, endpoint_ids))

    async def guarded_by(self, key: str) -> Sequence[Guarded]:
        return await self._read(lambda db: tallies.guarded_by(db, key))

    async def unguarded(self, keys: Sequence[str]) -> Sequence[str]:
        return await self._read(lambda db: tallies.unguarded(db, keys))

    async def stored_policies(self) -> Sequence[Mapping[str, Any]]:
        return await self._read(tallies.stored_policies)

    async def prune_tallies(self, older_than_ms: int, *, tenure: Tenure | None = None) -> int:
        return await self._write(lambda db, now: tallies.prune(db, older_than_ms, tenure, now))

    async def standings(self) -> Sequence[Standing]:
        return await self._read(standings.read)

    async def keep_standings(
        self, kept: Sequence[Standing], gone: Sequence[Standing] = (), *, tenure: Tenure | None = None
    ) -> None:
        await self._write(lambda db, now: standings.keep(db, kept, gone, tenure))

    async def breaker_memory(self) -> Memory:
        return await self._read(standings.memory)

    async def keep_breaker_memory(self, memory: Memory, *, tenure: Tenure | None = None) -> None:
        await self._write(lambda db, now: standings.keep_memory(db, memory, tenure))

    async def _read(self, job: Callable[[apsw.Connection], T]) -> T:
        raise NotImplementedError

    async def _write(self, job: Callable[[apsw.Connection, int], T], *, rings: bool = False) -> T:
        raise NotImplementedError

    def _now_ms(self) -> int:
        raise NotImplementedError
