"""The processes that use a file: there is one, so this is kept in its memory, and a quiet service writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hookfuse.core.member import Member, Presence, Report


class Heard(NamedTuple):
    report: Report
    started_ms: int
    heard_ms: int


class Members:
    """Nothing here waits for the disk."""

    def __init__(self) -> None:
        self._heard: dict[str, Heard] = {}

    async def report_in(self, report: Report, *, age_ms: int) -> None:
        now = self._now_ms()
        before = self._heard.get(report.name)
        self._heard[report.name] = Heard(report, now - age_ms if before is None else before.started_ms, now)

    async def sign_off(self, name: str) -> None:
        self._heard.pop(name, None)

    async def members(self) -> Sequence[Member]:
        now = self._now_ms()
        found = {name: Member(*heard, now) for name, heard in self._heard.items()}
        for name, member in found.items():
            if member.presence is Presence.FORGOTTEN:
                del self._heard[name]
        return [member for name, member in found.items() if name in self._heard]

    def _now_ms(self) -> int:
        raise NotImplementedError
