"""What to list: messages and attempts chosen by what they are. None chooses all."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MessageFilter:
    app_id: str
    channel: str | None = None
    event_types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AttemptFilter:
    """Attempts of one endpoint, of one message, or of both."""

    app_id: str
    endpoint_id: str | None = None
    message_id: str | None = None
    succeeded: bool | None = None
    """By its status: 2xx, or not."""
    status_class: int | None = None
    """200, 300, 400 or 500; 0: no response."""
    channel: str | None = None
    event_types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """How many deliveries are in each state."""

    pending: int = 0
    sending: int = 0
    sent: int = 0
    failed: int = 0
    cancelled: int = 0


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    succeeded: int = 0
    failed: int = 0
