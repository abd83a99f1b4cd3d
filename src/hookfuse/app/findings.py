"""What the doctor found: how it stands, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    GOOD = "ok"
    POOR = "warning"
    """It works, but not as it should."""
    BAD = "error"
    """The service does not start, or does not do its work."""


@dataclass(frozen=True, slots=True)
class Finding:
    about: str
    standing: Standing
    says: str
    remedy: str = ""
    """What to do, as a sentence; empty if there is nothing to do."""


def good(about: str, says: str) -> Finding:
    return Finding(about, Standing.GOOD, says)


def poor(about: str, says: str, remedy: str) -> Finding:
    return Finding(about, Standing.POOR, says, remedy)


def bad(about: str, says: str, remedy: str) -> Finding:
    return Finding(about, Standing.BAD, says, remedy)


def skew(about: str, theirs: float, asked: float, answered: float) -> Finding:
    """Compare a server's clock with ours, read before and after it was asked."""
    off = max(asked - theirs, theirs - answered, 0.0)
    if off < _SKEW:
        return good(f"{about} clock", "agrees with this machine's")
    return poor(
        f"{about} clock",
        f"is {off:.0f} s off from this machine's",
        "Let both follow NTP: receivers refuse signatures that are more than five minutes off.",
    )


_SKEW = 2.0
