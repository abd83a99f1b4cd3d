"""What becomes of claims: ended, returned, given back, or lost with their worker.

A few statements for a whole batch, none with a join of two lists: Postgres has no idea how long a list is, and would
go through one for every entry of the other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from hookfuse.core.delivery import Attempt, Claim, Deferral, DeliveryState, Place, Queue, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.core.endpoint import Stop
from hookfuse.stores.postgres import tallies
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
    lanes = await db.fetch(SQL["settle_lock"], list({each.claim.endpoint_id for each in ends}))
    if not lanes:
        return set()
    now = int(lanes[0]["now"])
    rows = await db.fetch(SQL["settle_deliveries"], *_deliveries(ends, lanes, now), now)
    queues = {row[0] - 1: row[1] for row in rows}
    attempts = [attempt for n in queues if (attempt := ends[n].attempt) is not None]
    if attempts:
        await db.execute(SQL["settle_attempts"], *_attempts(attempts))
        await tallies.add(db, (ends[n] for n in queues), now)
    if queues:
        await db.execute(SQL["settle_lanes"], *_lanes([(ends[n], queue) for n, queue in queues.items()], now))
    return set(queues)


def _deliveries(ends: Sequence[End], lanes: Sequence[Any], now: int) -> tuple[list[Any], ...]:
    """What changes in the deliveries; what would go back to a deleted endpoint ends instead."""
    deleted = {lane["endpoint_id"] for lane in lanes if lane["stop"] & Stop.DELETED}
    fifo = {lane["endpoint_id"] for lane in lanes if lane["fifo"]}
    decided = [
        (DeliveryState.CANCELLED, "endpoint_deleted", None)
        if each.state is DeliveryState.PENDING and each.claim.endpoint_id in deleted
        else (each.state, each.reason, now + each.delay_ms if each.state is DeliveryState.PENDING else None)
        for each in ends
    ]
    return (
        [each.claim.message_id for each in ends],
        [each.claim.endpoint_id for each in ends],
        [each.claim.token for each in ends],
        [state.value for state, _, _ in decided],
        [storable(reason) for _, reason, _ in decided],
        [int(each.attempt is not None) for each in ends],
        [int(each.spent) for each in ends],
        [int(each.died) for each in ends],
        [each.claim.endpoint_id in fifo for each in ends],
        [due_ms for _, _, due_ms in decided],
    )


def _attempts(attempts: Sequence[Attempt]) -> tuple[list[Any], ...]:
    return (
        [each.message_id for each in attempts],
        [each.id for each in attempts],
        [each.endpoint_id for each in attempts],
        [each.app_id for each in attempts],
        [each.number for each in attempts],
        [each.at_ms for each in attempts],
        [each.status for each in attempts],
        [storable(each.trouble) for each in attempts],
        [each.latency_ms for each in attempts],
        [each.manual for each in attempts],
        [storable(each.detail) for each in attempts],
        [each.response for each in attempts],
    )


class _Lane:
    """What a batch does to one lane."""

    def __init__(self) -> None:
        self.done = self.good = self.bad = 0
        self.due: dict[Queue, int] = {}
        self.blocked_ms: int | None = None

    def add(self, end: End, queue: int | None, now: int) -> None:
        self.done += 1
        self.good += end.healthy is True
        self.bad += end.healthy is False
        if queue is not None:
            due_ms = now + end.delay_ms
            self.due[Queue(queue)] = min(due_ms, self.due.get(Queue(queue), due_ms))
        if end.wait_ms:
            self.blocked_ms = max(now + end.wait_ms, self.blocked_ms or 0)


def _lanes(settled: Sequence[tuple[End, int | None]], now: int) -> tuple[list[Any], ...]:
    lanes: dict[str, _Lane] = defaultdict(_Lane)
    for end, queue in settled:
        lanes[end.claim.endpoint_id].add(end, queue, now)
    return (
        list(lanes),
        [lane.done for lane in lanes.values()],
        [lane.good for lane in lanes.values()],
        [lane.bad for lane in lanes.values()],
        [lane.due.get(Queue.FRESH) for lane in lanes.values()],
        [lane.due.get(Queue.LATE) for lane in lanes.values()],
        [lane.blocked_ms for lane in lanes.values()],
    )
