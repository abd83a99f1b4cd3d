"""One message for one endpoint, on its way to one visible end.

What is made for every request is a named tuple: a frozen dataclass takes five times as long to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple


class DeliveryState(StrEnum):
    PENDING = "pending"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        return self not in (DeliveryState.PENDING, DeliveryState.SENDING)


class Queue(IntEnum):
    """Where a delivery waits in its lane; an ended one waits nowhere."""

    FRESH = 0
    """First tries."""
    LATE = 1
    """Retries: they go after first tries, but keep a share of the slots."""
    SENDING = 2
    """With a worker, until its lease ends."""


class Place(NamedTuple):
    """What names a delivery."""

    message_id: str
    endpoint_id: str


@dataclass(frozen=True, slots=True)
class Chosen:
    """Deliveries chosen by what they are; None chooses all."""

    app_id: str
    endpoint_id: str | None = None
    states: tuple[DeliveryState, ...] | None = None
    event_types: tuple[str, ...] | None = None
    since_ms: int | None = None
    """By the message's acceptance, this instant included."""
    until_ms: int | None = None
    """Not included."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery as people see it. Message and endpoint together name it."""

    message_id: str
    endpoint_id: str
    app_id: str
    state: DeliveryState
    attempts: int
    """Requests made so far."""
    spent: int
    """Steps of the retry schedule used up; a manual retry begins again."""
    deaths: int
    """Workers that died with it in hand."""
    due_ms: int | None
    """When it goes next; None: ended, or with a worker."""
    reason: str
    """Why it ended, or why it waits."""
    created_ms: int
    ended_ms: int | None


class Claim(NamedTuple):
    """A delivery in the hands of one worker, until the lease of its token ends."""

    message_id: str
    endpoint_id: str
    app_id: str
    token: int
    version: int
    """Of the endpoint, so that a changed setting is seen at the next claim."""
    event_type: str
    payload: bytes
    created_ms: int
    attempts: int
    spent: int
    deaths: int
    in_flight: int
    """Requests of this lane in flight over the whole fleet, this claim's included."""
    failing: bool = False
    """Whether the lane's last settled attempt had failed."""
    manual: bool = False
    """Whether someone asked for the attempt that it is claimed for."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What a claim brought, and how long nothing more is due (None: until something is accepted)."""

    claims: tuple[Claim, ...]
    wait_ms: int | None
    now_ms: int
    """The database's clock."""


class Attempt(NamedTuple):
    """One request of a delivery and what came of it."""

    id: str
    message_id: str
    endpoint_id: str
    app_id: str
    number: int
    at_ms: int
    status: int | None
    trouble: str
    """Why there is no whole response; empty if there is one."""
    latency_ms: int
    response: bytes
    """The beginning of the response's body."""
    detail: str
    manual: bool = False
    """Whether someone asked for it; else the schedule did."""


class Settlement(NamedTuple):
    """What became of a claim.

    `state` is SENT, FAILED or PENDING; PENDING comes back after `delay_ms`. Without an attempt nothing was sent.
    """

    claim: Claim
    state: DeliveryState
    reason: str
    attempt: Attempt | None = None
    delay_ms: int = 0
    spent: bool = True
    healthy: bool | None = None
    """What the attempt says about the lane: widen it, narrow it, or nothing."""
    slow: bool = False
    """Whether it took longer than its breaker's policy likes."""


class Deferral(NamedTuple):
    """A claim given back untouched, to come again after `delay_ms`; its lane is blocked for `wait_ms`."""

    claim: Claim
    reason: str
    wait_ms: int = 0
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Rescued:
    """What `rescue` found: deliveries whose worker was lost."""

    returned: int
    quarantined: tuple[Place, ...] = ()
    """Those that lost too many workers."""
    more: bool = False
    """Whether to ask again at once: not everything was looked at."""
