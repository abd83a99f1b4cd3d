"""Notices: what people are told of their endpoints, on which channels, and when they are left in peace.

Something that happened is an `Occurrence`; `(key, generation)` names it in the whole fleet. It becomes one notice for
each channel, in the transaction in which it is written down. Notices about the same thing form a thread. The first of
a thread goes out at once. What follows within the quiet window waits for its end, and only the last of it goes out,
with the number of those that it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final, NamedTuple

from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id

QUIET_MS: Final = 900_000
STAGES_MS: Final = (3_600_000, 21_600_000, 86_400_000)
"""How long an endpoint has failed when its owner is told: after one hour, six hours, and a day."""


class Event(StrEnum):
    """What is told; operational webhooks carry it as their type."""

    ENDPOINT_DISABLED = "endpoint.disabled"
    ENDPOINT_ENABLED = "endpoint.enabled"
    BREAKER_OPENED = "breaker.opened"
    BREAKER_CLOSED = "breaker.closed"
    EXHAUSTED = "message.attempt.exhausted"
    FAILING = "message.attempt.failing"
    SERVICE_TROUBLE = "service.trouble"
    """The service itself is not as it should be; told on its own channels, and to no application."""
    SERVICE_RECOVERED = "service.recovered"
    TEST = "notice.test"
    """Someone wants to know whether notices arrive."""


NOBODYS: Final = ""
"""The application of what is about the service itself."""
_THREADS: Final = {
    Event.ENDPOINT_DISABLED: "endpoint",
    Event.ENDPOINT_ENABLED: "endpoint",
    Event.BREAKER_OPENED: "breaker",
    Event.BREAKER_CLOSED: "breaker",
    Event.EXHAUSTED: "exhausted",
    Event.FAILING: "failing",
    Event.SERVICE_TROUBLE: "service",
    Event.SERVICE_RECOVERED: "service",
    Event.TEST: "test",
}


class NoticeChannel(StrEnum):
    """How a notice travels."""

    WEBHOOK = "webhook"
    EMAIL = "email"
    CHAT = "chat"


class NoticeState(StrEnum):
    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FOLDED = "folded"
    """A later one of its thread speaks for it."""
    FAILED = "failed"
    """Given up."""


@dataclass(frozen=True, slots=True)
class NoticeRules:
    """Which notices are made: on which channels, about what, and how long a thread is quiet after one."""

    channels: tuple[NoticeChannel, ...] = ()
    events: tuple[Event, ...] = tuple(Event)
    quiet_ms: int = QUIET_MS


@dataclass(frozen=True, slots=True)
class NoticeSettings:
    """What an application chose instead of the defaults; None: the default."""

    app_id: str
    channels: tuple[NoticeChannel, ...]
    sealed: bytes
    """Addresses and secrets of the channels, sealed."""
    events: tuple[Event, ...] | None = None
    quiet_ms: int | None = None
    updated_ms: int = 0

    def rules(self, defaults: NoticeRules) -> NoticeRules:
        return NoticeRules(
            self.channels,
            defaults.events if self.events is None else self.events,
            defaults.quiet_ms if self.quiet_ms is None else self.quiet_ms,
        )


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that people may want to hear of."""

    event: Event
    key: str
    generation: int
    about: str
    """The key of the breaker, or `application/endpoint`."""
    app_id: str
    at_ms: int
    endpoint_id: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    count: int = 1
    """How many of the same kind it stands for."""
    again: bool = False
    """Whether it is told only if its thread last said something else."""

    @property
    def thread(self) -> str:
        return f"{_THREADS[self.event]} {self.about}"

    def notice_id(self, channel: NoticeChannel) -> str:
        """The same in every process, so that whoever sends it again says so."""
        named = f"{self.key}\0{self.generation}\0{channel}".encode()
        return make_id(IdKind.NOTICE, self.at_ms, sha256(named).digest()[:ENTROPY_BYTES])


@dataclass(frozen=True, slots=True)
class Notice:
    """A row of the outbox."""

    id: str
    event: Event
    channel: NoticeChannel
    app_id: str
    endpoint_id: str | None
    key: str
    generation: int
    facts: Mapping[str, Any]
    state: NoticeState
    folded: int
    """How many others it speaks for."""
    attempts: int
    due_ms: int | None
    """When it goes next, or when its lease ends; None: ended."""
    reason: str
    """Why it was not sent."""
    at_ms: int
    """When it happened."""
    created_ms: int
    ended_ms: int | None
    token: int


class Waiting(NamedTuple):
    """What waits to be told on one channel."""

    channel: NoticeChannel
    number: int
    age_ms: int
    """For how long the oldest has been free to go; 0: what waits is in its quiet window."""


class Earlier(NamedTuple):
    """A notice of the same thread and channel that is not folded."""

    id: str
    event: Event
    from_ms: int
    """When it was, or will be, first let go."""
    folded: int


class Placed(NamedTuple):
    """Where a new notice goes in its thread."""

    from_ms: int
    folds: Earlier | None
    """The one that waits and that it replaces."""

    @property
    def folded(self) -> int:
        return 0 if self.folds is None else self.folds.folded + 1


def oldest_id(at_ms: int) -> str:
    """Below the ids of all notices of what happened since."""
    return make_id(IdKind.NOTICE, max(at_ms, 0), bytes(ENTROPY_BYTES))


def place(happened: Occurrence, rules: NoticeRules, now_ms: int, earlier: Sequence[Earlier]) -> Placed | None:
    """When to tell of it. `earlier` are the last two of its thread, newest first; None: it has been said.

    That an endpoint was disabled waits for nothing, unless that is what its owner heard last.
    """
    if happened.again and earlier and earlier[0].event is happened.event:
        return None
    waits = earlier[0] if earlier and earlier[0].from_ms > now_ms else None
    told = next((each for each in earlier if each.from_ms <= now_ms), None)
    urgent = happened.event is Event.ENDPOINT_DISABLED and (told is None or told.event is not happened.event)
    if told is None or urgent:
        return Placed(now_ms, waits)
    return Placed(max(now_ms, told.from_ms + rules.quiet_ms), waits)
