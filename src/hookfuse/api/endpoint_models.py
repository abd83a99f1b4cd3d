"""Endpoints as they look outside."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from hookfuse.api.wire import (
    Channels,
    EventTypeNames,
    Instant,
    Metadata,
    Text,
    Uid,
    Wire,
    instant,
    instant_or_none,
)
from hookfuse.core.destination import URL_LENGTH
from hookfuse.core.endpoint import CAP, MOST_CAP, MOST_RATE, Endpoint, Offer, Stop

Url = Annotated[str, Meta(min_length=1, max_length=URL_LENGTH, description="http or https, with a public host.")]
Throttle = Annotated[int, Meta(ge=1, le=MOST_RATE, description="The most requests a second, over all workers.")]
Cap = Annotated[int, Meta(ge=1, le=MOST_CAP, description="The most requests in flight, over all workers.")]
Timeout = Annotated[float, Meta(ge=0.1, le=3600, description="Seconds for a whole request.")]
BreakerKey = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"^[a-zA-Z0-9\-_.]+$")]
SecretText = Annotated[str, Meta(max_length=200, description="`whsec_` and base64; left out: one is made.")]


class EndpointUpsert(Wire):
    """An endpoint as it should be."""

    url: Url
    description: Text = ""
    uid: Uid | None = None
    disabled: bool | None = None
    event_types: EventTypeNames | None = None
    """Only messages of these types; left out: all. `filterTypes` is another name for it."""
    filter_types: EventTypeNames | None = None
    channels: Channels | None = None
    """Only messages with one of these; left out: all."""
    metadata: Metadata | None = None
    throttle_rate: Throttle | None = None
    rate_limit: Throttle | None = None
    """Another name for `throttleRate`."""
    cap: Cap = CAP
    timeout: Timeout | None = None
    """Left out: 15 seconds, or the longest that the service allows if that is shorter."""
    fifo: bool = False
    """One request at a time, in the order of acceptance."""
    breaker_key: BreakerKey | None = None
    """Endpoints of the application with the same key share a breaker."""


class EndpointIn(EndpointUpsert):
    secret: SecretText | None = None
    headers: dict[str, str] | None = None


class EndpointPatch(Wire):
    """Fields that are left out stay as they are; null takes a setting away."""

    url: Url | UnsetType = UNSET
    description: Text | UnsetType = UNSET
    uid: Uid | UnsetType | None = UNSET
    disabled: bool | UnsetType | None = UNSET
    event_types: EventTypeNames | UnsetType | None = UNSET
    filter_types: EventTypeNames | UnsetType | None = UNSET
    channels: Channels | UnsetType | None = UNSET
    metadata: Metadata | UnsetType = UNSET
    throttle_rate: Throttle | UnsetType | None = UNSET
    rate_limit: Throttle | UnsetType | None = UNSET
    cap: Cap | UnsetType = UNSET
    timeout: Timeout | UnsetType | None = UNSET
    fifo: bool | UnsetType = UNSET
    breaker_key: BreakerKey | UnsetType | None = UNSET


class EndpointOut(Wire):
    id: str
    url: str
    description: str
    uid: str | None
    version: int
    disabled: bool
    disabled_at: Instant | None
    disabled_reason: str
    reenable_offered: Offer | None
    """Why it may be well again, while it is disabled: its URL was changed, or a test reached it."""
    paused: bool
    event_types: list[str] | None
    filter_types: list[str] | None
    channels: list[str] | None
    metadata: dict[str, str]
    throttle_rate: int | None
    rate_limit: int | None
    cap: int
    timeout: float
    fifo: bool
    breaker_key: str | None
    flag: str
    """Something that its owner should look at, such as a destination that is not dialled."""
    created_at: Instant
    updated_at: Instant


def told(endpoint: Endpoint) -> EndpointOut:
    event_types = None if endpoint.event_types is None else list(endpoint.event_types)
    return EndpointOut(
        id=endpoint.id,
        url=endpoint.url,
        description=endpoint.description,
        uid=endpoint.uid,
        version=endpoint.version,
        disabled=not endpoint.enabled,
        disabled_at=instant_or_none(endpoint.disabled_ms),
        disabled_reason=endpoint.disabled_reason,
        reenable_offered=Offer(endpoint.offer) if endpoint.offer and not endpoint.enabled else None,
        paused=bool(endpoint.stop & (Stop.PAUSED | Stop.APP_PAUSED)),
        event_types=event_types,
        filter_types=event_types,
        channels=None if endpoint.channels is None else list(endpoint.channels),
        metadata=dict(endpoint.metadata),
        throttle_rate=endpoint.rate_limit,
        rate_limit=endpoint.rate_limit,
        cap=endpoint.cap,
        timeout=endpoint.timeout_ms / 1000,
        fifo=endpoint.fifo,
        breaker_key=endpoint.breaker_key,
        flag=endpoint.flag,
        created_at=instant(endpoint.created_ms),
        updated_at=instant(endpoint.updated_ms),
    )
