"""How values look outside: camelCase, instants as RFC 3339, text within bounds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

import msgspec
from msgspec import Meta

from hookfuse.core.endpoint import METADATA_LENGTH, METADATA_NAME_LENGTH, MOST_EVENT_TYPES, MOST_METADATA, TEXT_LENGTH
from hookfuse.core.message import MOST_CHANNELS

T = TypeVar("T")


class Wire(msgspec.Struct, rename="camel", kw_only=True):
    """What is sent and received."""


NO_NUL = r"^[^\x00]*$"
"""What a text has to match that is stored: Postgres holds no NUL, and stores take the same."""

Instant = Annotated[datetime, Meta(extra_json_schema={"format": "date-time"})]
Limit = Annotated[int, Meta(ge=1, le=250, description="How many at most.")]
Iterator = Annotated[str, Meta(max_length=1024, description="The `iterator` or `prevIterator` of another page.")]
Text = Annotated[str, Meta(max_length=TEXT_LENGTH, pattern=NO_NUL)]
Uid = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[a-zA-Z0-9\-_.]+$")]
EventTypeName = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"^[a-zA-Z0-9\-_.]+$")]
Channel = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[a-zA-Z0-9\-_.]+$")]
EventTypeNames = Annotated[list[EventTypeName], Meta(min_length=1, max_length=MOST_EVENT_TYPES)]
Channels = Annotated[list[Channel], Meta(min_length=1, max_length=MOST_CHANNELS)]
Reason = Annotated[str, Meta(max_length=500)]

Metadata = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=METADATA_NAME_LENGTH, pattern=NO_NUL)],
        Annotated[str, Meta(max_length=METADATA_LENGTH, pattern=NO_NUL)],
    ],
    Meta(max_length=MOST_METADATA),
]


class Page(msgspec.Struct, Generic[T], rename="camel"):
    """A page of a list. Ask for the next with its `iterator`, until `done`."""

    data: list[T]
    iterator: str | None
    prev_iterator: str | None
    done: bool


class Nothing(Wire):
    """An empty object."""


def instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def instant_or_none(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else instant(at_ms)


def seconds_instant(at: float | None) -> datetime | None:
    return None if at is None else datetime.fromtimestamp(at, UTC)


def in_ms(at: datetime) -> int:
    """Unix milliseconds; an instant without a zone is taken as UTC."""
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return int((at - _EPOCH).total_seconds() * 1000)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
