"""Claiming: ring the bells, lock lanes that are free, take the heads of their queues, in one round trip."""

from __future__ import annotations

import secrets

from hookfuse.core.delivery import Claim, Claims, DeliveryState
from hookfuse.core.lanes import late_share
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.postgres.settle import End, Lease, settle_all

_BELLS = 64
"""Each is for fifty lanes at most, so a claim rings some thousands of them at most."""
_FIELDS = len(Claim._fields)
"""The columns are in their order; what follows is for the last row."""


class Turns:
    """Which applications had theirs; each process goes around by itself."""

    def __init__(self) -> None:
        self.last = [""] * 4


async def claim(
    db: Connection, limit: int, lease_ms: int, failing_limit: int, token: int | None, turns: Turns
) -> Claims:
    token = secrets.randbits(62) if token is None else token
    late = late_share(limit, token)
    *rows, last = await db.fetch(SQL["claim"], limit, late, failing_limit, lease_ms, token, _BELLS, turns.last)
    turns.last = last["next_turns"]
    # Their content was expunged while they were with a worker, who lost them or gave them back.
    expunged = [Lease(row["message_id"], row["endpoint_id"], token) for row in rows if row["payload"] is None]
    if expunged:
        await settle_all(db, [End(each, DeliveryState.CANCELLED, "expunged") for each in expunged])
    claims = [Claim._make(row[:_FIELDS]) for row in rows if row["payload"] is not None]
    return Claims(tuple(claims), last["wait_ms"], last["instant"])
