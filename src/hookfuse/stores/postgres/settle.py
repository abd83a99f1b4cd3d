"""What becomes of claims: ended, returned, given back, or lost with their worker; a whole batch in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from hookfuse.core.delivery import Attempt, Claim, Deferral, DeliveryState, Place, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.stores.postgres.arrays import numbers, texts
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.duties import holds
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
    slow: bool = False
    wait_ms: int = 0
    died: bool = False


async def settle(db: Connection, settlements: Sequence[Settlement]) -> list[Claim]:
    ends = [
        End(each.claim, each.state, each.reason, each.attempt, each.delay_ms, each.spent, each.healthy, each.slow)
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


async def rescue(db: Connection, deaths: int, limit: int, tenure: Tenure | None) -> Rescued:
    """Somebody else may rescue at the same time: a lease is given back once, and only that counts."""
    if not await holds(db, tenure):
        return Rescued(0)
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
    places = await db.fetchval(SQL["settle"], *_columns(ends))
    return {place - 1 for place in places}


def _columns(ends: Sequence[End]) -> tuple[Any, ...]:
    attempts = [each.attempt for each in ends]
    return (
        texts([each.claim.message_id for each in ends]),
        texts([each.claim.endpoint_id for each in ends]),
        numbers(each.claim.token for each in ends),
        texts([each.state.value for each in ends]),
        texts([storable(each.reason) for each in ends]),
        numbers(each.delay_ms for each in ends),
        numbers(each.wait_ms for each in ends),
        numbers(map(_marks, ends)),
        texts([each and each.id for each in attempts]),
        numbers(each and each.at_ms for each in attempts),
        numbers(each and each.status for each in attempts),
        texts([each and storable(each.trouble) for each in attempts]),
        numbers(each and each.latency_ms for each in attempts),
        texts([each and storable(each.detail) for each in attempts]),
        [each and each.response for each in attempts],
    )


def _marks(end: End) -> int:
    """Yes and no in the bits of a number."""
    return (
        end.spent * 1
        + end.died * 2
        + (end.healthy is True) * 4
        + (end.healthy is False) * 8
        + end.slow * 16
        + (end.attempt is not None and end.attempt.manual) * 32
    )
