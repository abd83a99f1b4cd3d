"""The processes of the fleet, on Postgres."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from hookfuse.core.member import FORGET_MS, Member, Part, Report, Sharing
from hookfuse.stores.postgres.connections import Connection, Job
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.sql import storable

T = TypeVar("T")


class Members:
    """Each method is one statement."""

    async def report_in(self, report: Report, *, age_ms: int) -> None:
        await self._alone(lambda db: _report_in(db, report, age_ms))

    async def sign_off(self, name: str) -> None:
        await self._alone(lambda db: db.execute(SQL["sign_off"], name))

    async def members(self) -> Sequence[Member]:
        return await self._alone(read)

    async def _alone(self, job: Job[T]) -> T:
        raise NotImplementedError


async def read(db: Connection) -> list[Member]:
    return [_member(*row) for row in await db.fetch(SQL["members"], FORGET_MS)]


async def _report_in(db: Connection, said: Report, age_ms: int) -> None:
    await db.execute(
        SQL["report_in"],
        said.name,
        storable(said.host),
        said.pid,
        said.version,
        [part.value for part in said.parts],
        said.every_ms,
        said.in_hand,
        said.slots,
        said.draining,
        said.breakers.value,
        said.suspect,
        age_ms,
        FORGET_MS,
    )


def _member(*row: Any) -> Member:
    *said, started_ms, heard_ms, now_ms = row
    name, host, pid, version, parts, every_ms, in_hand, slots, draining, breakers, suspect = said
    report = Report(
        name,
        host,
        pid,
        version,
        tuple(map(Part, parts)),
        every_ms,
        in_hand,
        slots,
        draining,
        Sharing(breakers),
        suspect,
    )
    return Member(report, started_ms, heard_ms, now_ms)
