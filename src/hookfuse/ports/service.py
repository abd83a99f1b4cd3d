"""What the API needs of a store beside delivery: pages of lists, event types, keys, the audit log, tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from hookfuse.core.access import ApiKey
from hookfuse.core.catalog import EventType
from hookfuse.core.delivery import Attempt, Chosen, Delivery, DeliveryState
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.listing import AttemptCounts, AttemptFilter, DeliveryCounts, MessageFilter
from hookfuse.core.message import Answer, Message, NewMessage
from hookfuse.core.paging import Span
from hookfuse.core.record import AuditEntry, Task, TaskStatus


class Pages(Protocol):
    """Lists in pages. Each has one order and reads both ways; what it costs depends on the page, not on the list."""

    async def applications_page(self, span: Span) -> Sequence[Application]:
        """By id."""
        ...

    async def endpoints_page(self, app_id: str, span: Span) -> Sequence[Endpoint]:
        """By id."""
        ...

    async def messages_page(self, chosen: MessageFilter, span: Span) -> Sequence[Message]:
        """By the instant of acceptance, then by id; without the payloads."""
        ...

    async def attempts_page(self, chosen: AttemptFilter, span: Span) -> Sequence[Attempt]:
        """By the instant of the request, then by id."""
        ...

    async def attempted_page(
        self, chosen: AttemptFilter, state: DeliveryState | None, span: Span
    ) -> Sequence[tuple[Attempt, Delivery]]:
        """The last attempt of each delivery of an endpoint, by its instant, then by id, with the delivery."""
        ...

    async def deliveries_page(self, chosen: Chosen, span: Span) -> Sequence[Delivery]:
        """By message (`Mark.id`), then by endpoint (`Mark.part`)."""
        ...

    async def destinations_page(self, message_id: str, span: Span) -> Sequence[Delivery]:
        """The deliveries of a message, by endpoint."""
        ...

    async def attempt(self, message_id: str, attempt_id: str) -> Attempt | None: ...

    async def payloads(self, message_ids: Sequence[str]) -> Mapping[str, bytes]:
        """The contents of those that still have one."""
        ...

    async def messages(self, ids: Sequence[str]) -> Sequence[Message]:
        """Those of these ids that exist, in no particular order, without the payloads."""
        ...


class Numbers(Protocol):
    """Counts that people look at."""

    async def delivery_counts(self, app_id: str, endpoint_id: str, since_ms: int, until_ms: int) -> DeliveryCounts:
        """Deliveries of an endpoint by state, of messages accepted in this time."""
        ...

    async def attempt_counts(self, endpoint_id: str, since_ms: int, until_ms: int) -> AttemptCounts: ...

    async def waiting(self, endpoint_ids: Sequence[str]) -> Mapping[str, int]:
        """How many deliveries wait for each endpoint, counted up to ten thousand; none: left out."""
        ...


class Additions(Protocol):
    """Deliveries that no acceptance made."""

    async def accept_for(self, message: NewMessage, endpoint_id: str) -> Answer:
        """Store a message with a delivery for this endpoint only, whatever it filters."""
        ...

    async def add_deliveries(self, endpoint_id: str, message_ids: Sequence[str]) -> int:
        """A delivery for each of these messages that has none for this endpoint and still has its content."""
        ...

    async def missing_page(self, app_id: str, endpoint_id: str, span: Span) -> Sequence[Message]:
        """Messages that the endpoint would get today and has no delivery of; ordered as `messages_page` is."""
        ...


class Catalog(Protocol):
    async def add_event_type(self, event_type: EventType) -> EventType:
        """Raises Conflict if there is one of this name that is not archived."""
        ...

    async def event_type(self, name: str) -> EventType | None: ...

    async def event_types_page(self, span: Span, *, archived: bool = False) -> Sequence[EventType]:
        """By name; archived ones only if they are asked for."""
        ...

    async def change_event_type(self, name: str, changes: Mapping[str, Any]) -> EventType | None: ...

    async def delete_event_type(self, name: str) -> bool: ...


class Keyring(Protocol):
    async def add_key(self, key: ApiKey) -> ApiKey: ...

    async def add_first_key(self, key: ApiKey) -> bool:
        """Add a key if there is none yet; of several who ask at once, one has done it."""
        ...

    async def key_by_hash(self, digest: bytes) -> ApiKey | None:
        """The key of this hash, revoked or not."""
        ...

    async def key(self, id_: str) -> ApiKey | None: ...

    async def keys_page(self, app_id: str | None, span: Span) -> Sequence[ApiKey]:
        """By id; those of one application, or all."""
        ...

    async def revoke_key(self, id_: str) -> bool: ...

    async def touch_keys(self, ids: Sequence[str]) -> None:
        """These were used just now."""
        ...


class Written(Protocol):
    """Whether an entry is in the audit log already."""

    written: bool


class Records(Protocol):
    async def add_audit(self, entry: AuditEntry) -> None: ...

    def writing_down(self, entry: Callable[[], AuditEntry]) -> AbstractContextManager[Written]:
        """Within it, the first change that this task makes commits the entry as well: both are there, or neither.

        A change that found nothing to change leaves the entry to the next one.
        """
        ...

    async def audit_page(self, app_id: str | None, span: Span) -> Sequence[AuditEntry]:
        """By id, which is by time; of one application, or all."""
        ...

    async def add_task(self, task: Task) -> Task: ...

    async def task(self, id_: str) -> Task | None: ...

    async def tasks_page(self, app_id: str | None, span: Span) -> Sequence[Task]: ...

    async def advance_task(self, id_: str, status: TaskStatus, seen: int, changed: int) -> bool:
        """Write down how far a task has come; False: it is no longer running, so stop."""
        ...

    async def cancel_task(self, id_: str) -> bool:
        """End a running task; whoever runs it stops at its next page."""
        ...


class Presets(Protocol):
    async def default_policy(self) -> Mapping[str, Any] | None:
        """The breaker policy behind those of applications; None: the one in the settings of each process."""
        ...

    async def change_default_policy(self, policy: Mapping[str, Any] | None) -> None:
        """Every worker sees it at its next claim."""
        ...


class ServiceStore(Pages, Numbers, Additions, Catalog, Keyring, Records, Presets, Protocol):
    """All of it."""
