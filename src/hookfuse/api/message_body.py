"""The body of a message to be sent: decoded once, its payload left as it came.

msgspec finds the payload without reading it, but it refuses texts that are JSON all the same, such as an escaped half
of a surrogate pair. What it refuses is read once more by the standard library, which only has to find where the payload
begins and ends.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from hookfuse.api import problems
from hookfuse.api.applications import ApplicationIn
from hookfuse.api.wire import Channels, EventTypeName, Instant, Uid, Wire

_SPACE: Final = re.compile(r"[ \t\n\r]*")


class MessageIn(Wire):
    """A message to be delivered to every endpoint that wants it."""

    event_type: EventTypeName
    payload: msgspec.Raw
    """Any JSON; it is delivered byte for byte as it is here."""
    event_id: Uid | None = None
    """A name of your own for the message, used once in the application."""
    channels: Channels | None = None
    deliver_at: Instant | None = None
    """Not before this time."""
    application: ApplicationIn | None = None
    """Made if there is none of the path's name yet; needs an admin key."""
    tags: UnsetType | None = UNSET
    payload_retention_period: UnsetType | None = UNSET
    payload_retention_hours: UnsetType | None = UNSET


_decoder = msgspec.json.Decoder(MessageIn)


def decode(body: bytes) -> MessageIn:
    try:
        body.isascii() or body.decode()
        return _decoder.decode(body)
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError) as error:
        raise problems.malformed(error, "body") from error
    except msgspec.DecodeError as error:
        found = _decode_slowly(body)
        if found is None:
            raise problems.malformed(error, "body") from error
        return found


def _decode_slowly(body: bytes) -> MessageIn | None:
    """None: it is no JSON that we take."""
    try:
        return msgspec.convert(_members(body.decode()), MessageIn)
    except msgspec.ValidationError as error:
        raise problems.malformed(error, "body") from error
    except (ValueError, RecursionError):
        return None


def _members(text: str) -> dict[str, Any]:
    """The members of the object that `text` is; the payload as it is written, the others read."""
    found: dict[str, Any] = {}
    at = _after(text, 0, "{")
    while not text.startswith("}", at):
        name, at = _values.raw_decode(text, at)
        if not isinstance(name, str):
            raise ValueError("a name expected")
        at = _after(text, at, ":")
        value, end = _values.raw_decode(text, at)
        found[name] = msgspec.Raw(text[at:end].encode()) if name == "payload" else value
        at = _skip_space(text, end)
        if text.startswith(",", at):
            at = _after(text, at, ",")
            if text.startswith("}", at):
                raise ValueError("a comma with nothing behind it")
        elif not text.startswith("}", at):
            raise ValueError("a comma expected")
    if text[at + 1 :].strip(" \t\n\r"):
        raise ValueError("something follows the object")
    return found


def _after(text: str, at: int, sign: str) -> int:
    """The place behind a sign that must come next, and behind the space around it."""
    at = _skip_space(text, at)
    if not text.startswith(sign, at):
        raise ValueError(f"{sign} expected")
    return _skip_space(text, at + 1)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


# Numbers are not read: one of five thousand digits takes its time, and has a limit of its own.
_values = JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
