"""The part of the store that only the API uses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import apsw

from hookfuse.core.access import ApiKey
from hookfuse.core.catalog import EventType
from hookfuse.core.condition import Census, EndpointFilter, Listed
from hookfuse.core.delivery import Attempt, Chosen, Delivery, DeliveryState
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.listing import AttemptCounts, AttemptFilter, DeliveryCounts, MessageFilter
from hookfuse.core.message import Answer, Message, NewMessage, check_message
from hookfuse.core.paging import Span
from hookfuse.core.record import AuditEntry, Task, TaskStatus
from hookfuse.core.tally import Tally
from hookfuse.stores.along import Along, along
from hookfuse.stores.sqlite import lists, overview, rows, service
from hookfuse.stores.sqlite.accept import accept_for

T = TypeVar("T")


class Serving:
    """Each method is one job of the reader or the writer."""

    async def applications_page(self, span: Span) -> Sequence[Application]:
        return await self._read(lambda db: lists.applications(db, span))

    async def endpoints_page(self, app_id: str, span: Span) -> Sequence[Endpoint]:
        return await self._read(lambda db: lists.endpoints(db, app_id, span))

    async def messages_page(self, chosen: MessageFilter, span: Span) -> Sequence[Message]:
        return await self._read(lambda db: lists.messages(db, chosen, span))

    async def attempts_page(self, chosen: AttemptFilter, span: Span) -> Sequence[Attempt]:
        return await self._read(lambda db: lists.attempts(db, chosen, span))

    async def attempted_page(
        self, chosen: AttemptFilter, state: DeliveryState | None, span: Span
    ) -> Sequence[tuple[Attempt, Delivery]]:
        return await self._read(lambda db: lists.attempted(db, chosen, state, span))

    async def deliveries_page(self, chosen: Chosen, span: Span) -> Sequence[Delivery]:
        return await self._read(lambda db: lists.deliveries(db, chosen, span))

    async def destinations_page(self, message_id: str, span: Span) -> Sequence[Delivery]:
        return await self._read(lambda db: lists.destinations(db, message_id, span))

    async def attempt(self, message_id: str, attempt_id: str) -> Attempt | None:
        return await self._read(lambda db: lists.attempt(db, message_id, attempt_id))

    async def payloads(self, message_ids: Sequence[str]) -> Mapping[str, bytes]:
        return await self._read(lambda db: lists.payloads(db, message_ids))

    async def messages(self, ids: Sequence[str]) -> Sequence[Message]:
        return await self._read(lambda db: lists.messages_by_id(db, ids))

    async def delivery_counts(self, app_id: str, endpoint_id: str, since_ms: int, until_ms: int) -> DeliveryCounts:
        return await self._read(lambda db: service.delivery_counts(db, app_id, endpoint_id, since_ms, until_ms))

    async def attempt_counts(self, endpoint_id: str, since_ms: int, until_ms: int) -> AttemptCounts:
        return await self._read(lambda db: service.attempt_counts(db, endpoint_id, since_ms, until_ms))

    async def waiting(self, endpoint_ids: Sequence[str]) -> Mapping[str, int]:
        return await self._read(lambda db: service.waiting(db, endpoint_ids))

    async def accept_for(self, message: NewMessage, endpoint_id: str) -> Answer:
        check_message(message)
        return await self._write(lambda db, now: accept_for(db, message, endpoint_id, now), rings=True)

    async def add_deliveries(self, endpoint_id: str, message_ids: Sequence[str]) -> int:
        return await self._write(lambda db, now: service.add_deliveries(db, endpoint_id, message_ids, now), rings=True)

    async def missing_page(self, app_id: str, endpoint_id: str, span: Span) -> Sequence[Message]:
        return await self._read(lambda db: lists.missing(db, app_id, endpoint_id, span))

    async def add_event_type(self, event_type: EventType) -> EventType:
        return await self._write(lambda db, now: service.add_event_type(db, event_type, now))

    async def event_type(self, name: str) -> EventType | None:
        return await self._read(lambda db: service.event_type_of(db, name))

    async def event_types_page(self, span: Span, *, archived: bool = False) -> Sequence[EventType]:
        return await self._read(
            lambda db: lists.page(db, "event_types_page", span, rows.event_type, archived=int(archived))
        )

    async def change_event_type(self, name: str, changes: Mapping[str, Any]) -> EventType | None:
        return await self._write(lambda db, now: service.change_event_type(db, name, changes, now))

    async def delete_event_type(self, name: str) -> bool:
        return await self._write(lambda db, now: service.delete_event_type(db, name))

    async def add_key(self, key: ApiKey) -> ApiKey:
        return await self._write(lambda db, now: service.add_key(db, key, now))

    async def add_first_key(self, key: ApiKey) -> bool:
        return await self._write(lambda db, now: service.add_first_key(db, key, now))

    async def key_by_hash(self, digest: bytes) -> ApiKey | None:
        return await self._read(lambda db: service.key_by(db, "key_by_hash", digest))

    async def key(self, id_: str) -> ApiKey | None:
        return await self._read(lambda db: service.key_by(db, "key", id_))

    async def keys_page(self, app_id: str | None, span: Span) -> Sequence[ApiKey]:
        name = "keys_page" if app_id is None else "keys_of_application_page"
        return await self._read(lambda db: lists.page(db, name, span, rows.key, app=app_id))

    async def revoke_key(self, id_: str) -> bool:
        return await self._write(lambda db, now: service.revoke_key(db, id_, now))

    async def touch_keys(self, ids: Sequence[str]) -> None:
        await self._write(lambda db, now: service.touch_keys(db, ids, now))

    async def add_audit(self, entry: AuditEntry) -> None:
        await self._write(lambda db, now: service.add_audit(db, entry, now))

    def writing_down(self, entry: Callable[[], AuditEntry]) -> AbstractContextManager[Along]:
        return along(entry)

    async def audit_page(self, app_id: str | None, span: Span) -> Sequence[AuditEntry]:
        name = "audit_page" if app_id is None else "audit_of_application_page"
        return await self._read(lambda db: lists.page(db, name, span, rows.audit, app=app_id))

    async def add_task(self, task: Task) -> Task:
        return await self._write(lambda db, now: service.add_task(db, task, now))

    async def task(self, id_: str) -> Task | None:
        return await self._read(lambda db: service.task_of(db, id_))

    async def tasks_page(self, app_id: str | None, span: Span) -> Sequence[Task]:
        name = "tasks_page" if app_id is None else "tasks_of_application_page"
        return await self._read(lambda db: lists.page(db, name, span, rows.task, app=app_id))

    async def advance_task(self, id_: str, status: TaskStatus, seen: int, changed: int) -> bool:
        return await self._write(lambda db, now: service.advance_task(db, id_, status, seen, changed, now))

    async def cancel_task(self, id_: str) -> bool:
        return await self._write(lambda db, now: service.cancel_task(db, id_, now))

    async def default_policy(self) -> Mapping[str, Any] | None:
        return await self._read(service.default_policy)

    async def change_default_policy(self, policy: Mapping[str, Any] | None) -> None:
        await self._write(lambda db, now: service.change_default_policy(db, policy))

    async def sick_endpoints(self, chosen: EndpointFilter, names: Sequence[str]) -> Sequence[Listed]:
        return await self._read(lambda db: overview.sick_endpoints(db, chosen, names))

    async def other_endpoints(self, chosen: EndpointFilter, but: Sequence[str], span: Span) -> Sequence[Listed]:
        return await self._read(lambda db: overview.other_endpoints(db, chosen, but, span))

    async def recent(self, endpoint_ids: Sequence[str], slots: int) -> Sequence[Tally]:
        return await self._read(lambda db: overview.recent(db, endpoint_ids, slots, self._now_ms()))

    async def census(self) -> Census:
        return await self._read(overview.census)

    def _now_ms(self) -> int:
        raise NotImplementedError

    async def _read(self, job: Callable[[apsw.Connection], T]) -> T:
        raise NotImplementedError

    async def _write(self, job: Callable[[apsw.Connection, int], T], *, rings: bool = False) -> T:
        raise NotImplementedError
