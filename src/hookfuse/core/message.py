"""What a producer sends, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias


class NewMessage(NamedTuple):
    """A message that asks to be accepted."""

    id: str
    app_id: str
    event_type: str
    payload: bytes
    """Exactly as received."""
    uid: str | None = None
    channels: tuple[str, ...] = ()
    deliver_ms: int | None = None
    """Not before this instant; None: at once."""
    idempotency_key: str | None = None
    fingerprint: bytes = b""
    """Tells a repetition from another request under the same idempotency key."""


@dataclass(frozen=True, slots=True)
class Message:
    id: str
    app_id: str
    event_type: str
    payload: bytes | None
    """None once its content was expunged."""
    uid: str | None
    channels: tuple[str, ...]
    deliver_ms: int | None
    created_ms: int


class Accepted(NamedTuple):
    """Committed. `repeated`: under this idempotency key it had been accepted before."""

    id: str
    created_ms: int
    deliveries: int
    repeated: bool = False


class Refused(NamedTuple):
    """Nothing was stored."""

    reason: str
    """unknown_application, uid_taken or idempotency_mismatch."""


Answer: TypeAlias = Accepted | Refused
