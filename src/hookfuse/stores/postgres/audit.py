"""Writing into the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hookfuse.core.record import AuditEntry
from hookfuse.stores.postgres.queries import SQL

if TYPE_CHECKING:
    from hookfuse.stores.postgres.connections import Connection


async def add_audit(db: Connection, entry: AuditEntry) -> None:
    values = (entry.id, entry.actor, entry.action, entry.subject, entry.app_id, entry.detail)
    await db.execute(SQL["add_audit"], *values)
