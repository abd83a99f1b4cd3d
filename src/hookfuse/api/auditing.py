"""Writing down who changed what."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from hookfuse.core.access import ApiKey
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.record import AuditEntry
from hookfuse.ports.service import Records


@asynccontextmanager
async def written_down(records: Records, entry: Callable[[], AuditEntry]) -> AsyncIterator[None]:
    """What is done within is in the audit log, committed with its first change.

    Where nothing was changed in the database (a secret was read, a breaker in Redis was told), it follows at the end.
    """
    with records.writing_down(entry) as done:
        yield
    if not done.written:
        await records.add_audit(entry())


def new_entry(key: ApiKey, action: str, subject: str, app_id: str | None, detail: str = "") -> AuditEntry:
    id_ = make_id(IdKind.AUDIT, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
    return AuditEntry(id_, key.id, action, subject, app_id, detail)
