"""What becomes of claims: ended, returned, given back, or lost with their worker; a whole batch in one round trip."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from hookfuse.core.delivery import Attempt, Claim, Deferral, DeliveryState, Place, Rescued, Settlement
from hookfuse.core.duty import Tenure
from hookfuse.stores.postgres.arrays import numbers, texts
from hookfuse.stores.postgres.connections import Connection
from hookfuse.stores.postgres.duties import holds
from hookfuse.stores.postgres.queries import SQL
from hookfuse.stores.sql import storable

_LANES_AT_ONCE = 100


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


async def disclaim(db: Connection, tokens: Sequence[int]) -> Mapping[int, int]:
    """Nothing is locked while it is looked for: what nobody works on stays where it is until it is found."""
    rows = await db.fetch(SQL["leases_of_tokens"], tokens)
    doubtful = list({row["endpoint_id"] for row in rows if row["doubtful"]})
    found = [row for row in rows if not row["doubtful"]]
    if doubtful:
        found += [row for row in await db.fetch(SQL["all_leases"], doubtful) if row["token"] in tokens]
    leases = [Lease(row["message_id"], row["endpoint_id"], row["token"]) for row in found]
    done = await settle_all(db, [End(each, DeliveryState.PENDING, "released") for each in leases])
    return Counter(leases[n].token for n in done)


async def rescue(db: Connection, deaths: int, limit: int, tenure: Tenure | None) -> Rescued:
    """Somebody else may rescue at the same time: a lease is given back once, and only that counts."""
    if not await holds(db, tenure):
        return Rescued(0)
    lanes = {row["endpoint_id"]: row for row in await db.fetch(SQL["lanes_to_rescue"], _LANES_AT_ONCE)}
    if not lanes:
        return Rescued(0)
    now = next(iter(lanes.values()))["now"]
    held, missing = await _leases_of(db, {id_: row["in_flight"] for id_, row in lanes.items()})
    held.sort(key=lambda row: row["lease_ms"] > now)
    lost = [row for row in held[:limit] if row["lease_ms"] <= now]
    ends = []
    for row in lost:
        lease = Lease(row["message_id"], row["endpoint_id"], row["token"])
        if row["deaths"] + 1 >= deaths:
            ends.append(End(lease, DeliveryState.FAILED, "quarantined", died=True))
        else:
            ends.append(End(lease, DeliveryState.PENDING, "worker_lost", died=True))
    done = await settle_all(db, ends)
    left = _first_ends(held[len(lost) :])
    await db.execute(
        SQL["lanes_rescued"], list(lanes), [left.get(id_) for id_ in lanes], [missing.get(id_, 0) for id_ in lanes]
    )
    quarantined = [
        Place(end.claim.message_id, end.claim.endpoint_id)
        for n, end in enumerate(ends)
        if n in done and end.state is DeliveryState.FAILED
    ]
    more = len(lanes) == _LANES_AT_ONCE or len(lost) == limit
    return Rescued(len(done) - len(quarantined), tuple(quarantined), more)


async def _leases_of(db: Connection, lanes: Mapping[str, int]) -> tuple[list[Any], dict[str, int]]:
    """What of these lanes is with workers, and of which lanes fewer are than they say: these were looked through."""
    found = await db.fetch(SQL["leases"], list(lanes), list(lanes.values()))
    counted = Counter(row["endpoint_id"] for row in found)
    doubtful = [id_ for id_, in_flight in lanes.items() if counted[id_] < in_flight]
    if not doubtful:
        return found, {}
    found = [row for row in found if row["endpoint_id"] not in doubtful]
    found += await db.fetch(SQL["all_leases"], doubtful)
    counted = Counter(row["endpoint_id"] for row in found)
    return found, {id_: lanes[id_] - counted[id_] for id_ in doubtful}


def _first_ends(leases: Iterable[Any]) -> dict[str, int]:
    """When the first lease of each lane ends."""
    first: dict[str, int] = {}
    for row in leases:
        first[row["endpoint_id"]] = min(row["lease_ms"], first.get(row["endpoint_id"], row["lease_ms"]))
    return first


async def settle_all(db: Connection, ends: Sequence[End]) -> Collection[int]:
    """Returns the places of those that were settled; of the others the lease was lost."""
    if not ends:
        return ()
    places: list[int] | None = await db.fetchval(SQL["settle"], *_columns(ends))
    return range(len(ends)) if places is None else {place - 1 for place in places}


class _Kind(NamedTuple):
    """What most ends of a batch have in common."""

    state: str
    reason: str
    trouble: str
    detail: str
    wait_ms: int
    marks: int


def _columns(ends: Sequence[End]) -> tuple[Any, ...]:
    kinds: dict[_Kind, int] = {}
    numbered = [kinds.setdefault(_kind(each), len(kinds) + 1) for each in ends]
    attempts = [each.attempt for each in ends]
    return (
        texts([each.state for each in kinds]),
        texts([storable(each.reason) for each in kinds]),
        texts([storable(each.trouble) for each in kinds]),
        texts([storable(each.detail) for each in kinds]),
        numbers(each.wait_ms for each in kinds),
        numbers(each.marks for each in kinds),
        texts([each.claim.message_id for each in ends]),
        texts([each.claim.endpoint_id for each in ends]),
        numbers(each.claim.token for each in ends),
        numbers(numbered),
        numbers(each.delay_ms for each in ends),
        texts([each and each.id for each in attempts]),
        numbers(each and each.at_ms for each in attempts),
        numbers(each and each.status for each in attempts),
        numbers(each and each.latency_ms for each in attempts),
        [each and each.response for each in attempts],
    )


def _kind(end: End) -> _Kind:
    attempt = end.attempt
    # Yes and no in the bits of a number.
    marks = (
        end.spent * 1
        + end.died * 2
        + (end.healthy is True) * 4
        + (end.healthy is False) * 8
        + end.slow * 16
        + (attempt is not None and attempt.manual) * 32
    )
    trouble, detail = ("", "") if attempt is None else (attempt.trouble, attempt.detail)
    return _Kind(end.state.value, end.reason, trouble, detail, end.wait_ms, marks)
