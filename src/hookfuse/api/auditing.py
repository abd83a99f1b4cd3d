"""Writing down who changed what."""

from __future__ import annotations

import random
import time

from hookfuse.core.access import ApiKey
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.record import AuditEntry
from hookfuse.ports.service import Records


async def write_down(
    records: Records, key: ApiKey, action: str, subject: str, app_id: str | None, detail: str = ""
) -> None:
    id_ = make_id(IdKind.AUDIT, int(time.time() * 1000), random.randbytes(ENTROPY_BYTES))
    await records.add_audit(AuditEntry(id_, key.id, action, subject, app_id, detail))
