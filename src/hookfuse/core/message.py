"""What a producer sends, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from hookfuse.core import bounds
from hookfuse.errors import InvalidField

LATEST_MS: Final = 253_402_300_800_000
"""The end of the year 9999."""
MOST_CHANNELS: Final = 50
TEXT_LENGTH: Final = 256
_SHORT: Final = TEXT_LENGTH
"""So many characters of all texts together are not too many for any of them."""


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


def check_message(message: NewMessage) -> None:
    """Refuse what no store can keep, by its name: in a shared commit it would spoil those of others."""
    id_, app_id, event_type, payload, uid, channels, deliver_ms, key, fingerprint = message
    try:
        whole = id_ + app_id + event_type
        if uid is not None:
            whole += uid
        if key is not None:
            whole += key
        if channels:
            whole += "".join(channels)
        # Nearly every message ends here, a quarter of a microsecond after it came.
        if (
            len(whole) <= _SHORT
            and whole.isascii()
            and "\0" not in whole
            and id_
            and app_id
            and event_type
            and type(payload) is type(fingerprint) is bytes
            and type(channels) is tuple
            and len(channels) <= MOST_CHANNELS
            and (deliver_ms is None or (type(deliver_ms) is int and 0 <= deliver_ms <= LATEST_MS))
        ):
            return
    except (TypeError, AttributeError):
        # What is no text is named below.
        pass
    _check_closely(message)


def _check_closely(message: NewMessage) -> None:
    for name in ("id", "app_id", "event_type"):
        bounds.text(name, getattr(message, name), 1, TEXT_LENGTH)
    for name in ("uid", "idempotency_key"):
        if getattr(message, name) is not None:
            bounds.text(name, getattr(message, name), 0, TEXT_LENGTH)
    for name in ("payload", "fingerprint"):
        if not isinstance(getattr(message, name), bytes):
            # Its kind alone: a payload is nobody's business, and may be long.
            raise InvalidField(name, "be bytes", type(getattr(message, name)))
    channels: object = message.channels
    if not isinstance(channels, tuple | list) or len(channels) > MOST_CHANNELS:
        raise InvalidField("channels", f"be at most {MOST_CHANNELS} texts", channels)
    for each in channels:
        bounds.text("channels", each, 0, TEXT_LENGTH)
    if message.deliver_ms is not None:
        bounds.whole("deliver_ms", message.deliver_ms, 0, LATEST_MS)


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
