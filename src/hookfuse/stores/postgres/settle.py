"""What becomes of claims: ended, returned, given back, or lost with their worker. One statement does all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hookfuse.core.delivery import Attempt, Claim, Deferral, DeliveryState, Place, Rescued, Settlement
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.sql import storable


class Lease(NamedTuple):
    """What names a claim: a delivery and the token of its lease."""

    message_id: str
    endpoint_id: str
    token: int


class End(NamedTuple):
    """What becomes of one claim."""

    claim: Claim | Lease
    state: DeliveryState
    reason: str
    attempt: Attempt | None = None
    delay_ms: int = 0
    spent: bool = False
    healthy: bool | None = None
    wait_ms: int = 0
    died: bool = False


async def settle(db: Connection, settlements: Sequence[Settlement]) -> list[Claim]:
    ends = [
        End(each.claim, each.state, each.reason, each.attempt, each.delay_ms, each.spent, each.healthy)
        for each in settlements
    ]
    done = await settle_all(db, ends)
    return [each.claim for n, each in enumerate(settlements) if n not in done]


async def defer(db: Connection, deferrals: Sequence[Deferral]) -> None:
    await settle_all(
        db,
        [
            End(each.claim, DeliveryState.PENDING, each.reason, delay_ms=each.delay_ms, wait_ms=each.wait_ms)
            for each in deferrals
        ],
    )


async def rescue(db: Connection, deaths: int, limit: int) -> Rescued:
    """Somebody else may rescue at the same time: a lease is given back once, and only that counts."""
    lost = await db.fetch(SQL["lost_leases"], limit)
    ends = []
    for message_id, endpoint_id, token, died in lost:
        lease = Lease(message_id, endpoint_id, token)
        if died + 1 >= deaths:
            ends.append(End(lease, DeliveryState.FAILED, "quarantined", died=True))
        else:
            ends.append(End(lease, DeliveryState.PENDING, "worker_lost", died=True))
    done = await settle_all(db, ends)
    quarantined = [
        Place(end.claim.message_id, end.claim.endpoint_id)
        for n, end in enumerate(ends)
        if n in done and end.state is DeliveryState.FAILED
    ]
    return Rescued(len(done) - len(quarantined), tuple(quarantined))


async def settle_all(db: Connection, ends: Sequence[End]) -> set[int]:
    """Returns the places of those that were settled; of the others the lease was lost."""
    if not ends:
        return set()
    rows = await db.fetch(SQL["settle"], *_claims(ends), *_attempts(ends))
    return {row[0] - 1 for row in rows}


def _claims(ends: Sequence[End]) -> tuple[list[Any], ...]:
    return (
        [each.claim.message_id for each in ends],
        [each.claim.endpoint_id for each in ends],
        [each.claim.token for each in ends],
        [each.state.value for each in ends],
        [storable(each.reason) for each in ends],
        [int(each.attempt is not None) for each in ends],
        [int(each.spent) for each in ends],
        [int(each.died) for each in ends],
        [each.healthy for each in ends],
        [each.delay_ms for each in ends],
        [each.wait_ms for each in ends],
    )


def _attempts(ends: Sequence[End]) -> tuple[list[Any], ...]:
    made = [(n, each.attempt) for n, each in enumerate(ends, 1) if each.attempt is not None]
    return (
        [n for n, _ in made],
        [attempt.id for _, attempt in made],
        [attempt.number for _, attempt in made],
        [attempt.at_ms for _, attempt in made],
        [attempt.status for _, attempt in made],
        [storable(attempt.trouble) for _, attempt in made],
        [attempt.latency_ms for _, attempt in made],
        [attempt.manual for _, attempt in made],
        [storable(attempt.detail) for _, attempt in made],
        [attempt.response for _, attempt in made],
    )
