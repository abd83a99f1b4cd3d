"""A process of the fleet: what it says of itself, and what to think of one that says nothing any more.

Every process reports in from time to time, and signs off when it ends in order. One that was killed, or is cut off from
the database, does neither: it is silent, and forgotten after an hour. All instants are the store's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

MISSED = 3
"""So many reports in a row are missing before a process is called silent."""
FORGET_MS = 3_600_000


class Part(StrEnum):
    """What a process does."""

    API = "api"
    WORKER = "worker"


class Sharing(StrEnum):
    """Whose breakers a process works with, as it sees it."""

    SHARED = "shared"
    """Those that the fleet has in Redis."""
    DEGRADED = "degraded"
    """Its own, because Redis is away."""
    OWN = "own"
    """Its own, because it was given no Redis."""


class Presence(StrEnum):
    RUNNING = "running"
    DRAINING = "draining"
    """It takes nothing new, and ends when what it has in flight has ended."""
    SILENT = "silent"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Report:
    """What a process says of itself."""

    name: str
    """The one that it holds duties by; no two processes have the same, whatever their host and number."""
    host: str
    pid: int
    version: str
    parts: tuple[Part, ...]
    every_ms: int
    """How often it reports."""
    in_hand: int
    """Requests in flight."""
    slots: int
    """The most that there may be; 0: it does not deliver."""
    draining: bool
    breakers: Sharing
    suspect: bool
    """Whether it takes the failures that it sees to be the fault of its own network."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process that the store has heard of, as it was at `now_ms`."""

    report: Report
    started_ms: int
    heard_ms: int
    now_ms: int

    @property
    def presence(self) -> Presence:
        return presence_of(self.report, self.heard_ms, self.now_ms)


def presence_of(report: Report, heard_ms: int, now_ms: int) -> Presence:
    # A report of the future is from before the store's clock was set back: whoever lives is heard again in a moment.
    unheard_ms = abs(now_ms - heard_ms)
    if unheard_ms >= FORGET_MS:
        return Presence.FORGOTTEN
    if unheard_ms >= MISSED * report.every_ms:
        return Presence.SILENT
    return Presence.DRAINING if report.draining else Presence.RUNNING


def in_order(members: Iterable[Member]) -> list[Member]:
    """Those that are heard of by where they run, then the silent ones, the last to fall silent first."""

    def place(member: Member) -> tuple[bool, int, str, int, str]:
        silent, said = member.presence is Presence.SILENT, member.report
        return silent, -member.heard_ms if silent else 0, said.host, said.pid, said.name

    return sorted(members, key=place)
