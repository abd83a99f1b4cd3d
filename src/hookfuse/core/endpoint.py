"""Applications and their endpoints, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntFlag, StrEnum
from typing import Any, Final

CAP = 32
TIMEOUT_MS = 15_000

MOST_CAP: Final = 10_000
MOST_RATE: Final = 1_000_000
SHORTEST_TIMEOUT_MS: Final = 100
LONGEST_TIMEOUT_MS: Final = 3_600_000
NAME_LENGTH: Final = 1024
TEXT_LENGTH: Final = 4096
MOST_EVENT_TYPES: Final = 500
MOST_METADATA: Final = 50
METADATA_NAME_LENGTH: Final = 256
METADATA_LENGTH: Final = 1024


class Stop(IntFlag):
    """Why nothing is sent to an endpoint. Its deliveries are stored all the same."""

    NONE = 0
    DISABLED = 1
    PAUSED = 2
    APP_PAUSED = 4
    DELETED = 8


class Offer(StrEnum):
    """Why a disabled endpoint may be well again."""

    URL_CHANGED = "url_changed"
    TEST_SUCCEEDED = "test_succeeded"


@dataclass(frozen=True, slots=True)
class Application:
    """One tenant. `policy` and `retry` stand behind those of its endpoints."""

    id: str
    name: str
    uid: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, Any] | None = None
    retry: Mapping[str, Any] | None = None
    paused_ms: int | None = None
    created_ms: int = 0
    updated_ms: int = 0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One destination of an application, with everything that says how it is served.

    Settings are plain data here; whoever sends turns them into values once for each `version`.
    """

    id: str
    app_id: str
    url: str
    uid: str | None = None
    description: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    event_types: tuple[str, ...] | None = None
    """Only messages of these types; None: all."""
    channels: tuple[str, ...] | None = None
    """Only messages that carry one of these; None: all."""
    headers: bytes = b""
    """Custom headers as JSON, sealed."""
    secret: bytes = b""
    """The ring of signing secrets, sealed."""
    policy: Mapping[str, Any] | None = None
    retry: Mapping[str, Any] | None = None
    response: Mapping[str, Any] | None = None
    breaker_key: str | None = None
    """Endpoints with the same key share a breaker; None: a breaker of its own."""
    cap: int = CAP
    """Most requests in flight, over the whole fleet."""
    rate_limit: int | None = None
    """Most requests a second, over the whole fleet."""
    timeout_ms: int = TIMEOUT_MS
    fifo: bool = False
    """One request at a time, in the order of acceptance: a failing message holds up all that follow."""
    stop: Stop = Stop.NONE
    disabled_ms: int | None = None
    disabled_reason: str = ""
    flag: str = ""
    """Something its owner should look at, such as an address that we do not dial."""
    offer: str = ""
    """Why enabling it is offered while it is disabled; see `Offer`. Empty: it is not."""
    version: int = 1
    """Grows with every change."""
    created_ms: int = 0
    updated_ms: int = 0

    @property
    def enabled(self) -> bool:
        return not self.stop & Stop.DISABLED

    @property
    def key(self) -> str:
        """The key of its breaker. An application cannot reach another's, whatever key it chooses."""
        return f"{self.app_id}/{self.breaker_key or self.id}"
