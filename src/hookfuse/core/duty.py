"""Work that one process of the fleet does for all, and who does it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Duty(StrEnum):
    SAMPLING = "sampling"
    """Judges breakers whose policy is sampled, and rebuilds what Redis lost."""
    NOTICES = "notices"
    """Sends what people are told."""
    RETENTION = "retention"
    """Forgets what is old."""
    RESCUE = "rescue"
    """Brings back what lost workers held."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """A duty in the hands of one process, until its lease ends.

    `fence` grows each time the duty changes hands. What is written for a duty carries it, and where a newer one is
    known nothing is changed: a leader that was paused, and does not know yet that it was replaced, does no harm.
    """

    duty: Duty
    holder: str
    since_ms: int
    fence: int
    until_ms: int
