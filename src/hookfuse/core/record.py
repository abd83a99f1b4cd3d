"""What was done by whom: an entry for each change, and work that goes on after its request was answered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One change that someone made."""

    id: str
    actor: str
    """The id of the key."""
    action: str
    subject: str
    """The ids that it was done to."""
    app_id: str | None = None
    detail: str = ""
    """Which fields, never their values."""
    at_ms: int = 0


class TaskKind(StrEnum):
    RECOVER = "endpoint.recover"
    REPLAY = "endpoint.replay"
    BULK_RETRY = "endpoint.bulk-replay"
    BULK_CANCEL = "delivery.cancel"


class TaskStatus(StrEnum):
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Task:
    """Work on many deliveries, page by page, by the process that took the request."""

    id: str
    kind: TaskKind
    app_id: str
    subject: str = ""
    status: TaskStatus = TaskStatus.RUNNING
    total: int | None = None
    """How many there were to look at, as counted at the beginning."""
    seen: int = 0
    changed: int = 0
    created_ms: int = 0
    updated_ms: int = 0
