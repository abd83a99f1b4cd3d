"""What a producer sends, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from hookfuse.errors import InvalidInput

_LATEST_MS: Final = 253_402_300_800_000
"""The end of the year 9999."""


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
    texts = (message.id, message.app_id, message.event_type, message.uid, message.idempotency_key, *message.channels)
    whole = "".join(filter(None, texts))
    # Nearly every message ends here.
    if not whole.isascii() or "\0" in whole:
        for name, text in zip(_TEXTS, texts, strict=False):
            _check_text(name, text)
        for text in message.channels:
            _check_text("channels", text)
    if message.deliver_ms is not None and not 0 <= message.deliver_ms <= _LATEST_MS:
        raise InvalidInput("deliver_ms must be an instant between 1970 and the year 9999.")


_TEXTS: Final = ("id", "app_id", "event_type", "uid", "idempotency_key")


def _check_text(name: str, text: str | None) -> None:
    if text is None:
        return
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{name} must be text that can be written as UTF-8; it has half of a pair in it.") from None
    if "\0" in text:
        raise InvalidInput(f"{name} must not have a NUL character in it.")


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
