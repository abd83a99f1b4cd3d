"""How what became of claims travels to the database: many together, and nobody is kept waiting for a few."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hookfuse.core.delivery import Claim, DeliveryState, Settlement
from hookfuse.delivery.settler import Settler
from tests.unit.delivery.conftest import Post

pytestmark = pytest.mark.anyio

JOURNEY = 0.05


async def ends(post: Post, count: int) -> list[Settlement]:
    """What became of so many claims of one endpoint."""
    await post.endpoint(cap=count)
    await post.bench.widen("ep_1")
    for _ in range(count):
        await post.bench.send()
    claims = await post.bench.claim(count)
    assert len(claims) == count
    return [Settlement(claim, DeliveryState.SENT, "sent") for claim in claims]


async def journeys(post: Post, first: Sequence[Settlement], *later: Sequence[Settlement]) -> list[int]:
    """How many go with each journey, if some end during the first one, and others turn by turn after it."""
    sizes: list[int] = []
    written = asyncio.Event()
    settle = post.store.settle

    async def noting(settlements: Sequence[Settlement]) -> Sequence[Claim]:
        sizes.append(len(settlements))
        await asyncio.sleep(JOURNEY)
        return await settle(settlements)

    async def end() -> None:
        for some in later:
            for each in some:
                settler.settle(each)
            await written.wait()
            await asyncio.sleep(0)

    post.store.settle = noting  # type: ignore[method-assign]
    settler = Settler(post.store, lambda lost: pytest.fail(str(lost)), lambda claims: written.set())
    for each in first:
        settler.settle(each)
    while not sizes:
        await asyncio.sleep(0)
    await end()
    await settler.flush()
    return sizes


async def test_many_wait_for_more(post: Post) -> None:
    """After a journey with many, what ends one after the other goes together with the next."""
    made = await ends(post, 120)
    assert await journeys(post, made[:80], made[80:90], made[90:100], made[100:110], made[110:]) == [80, 40]


async def test_nobody_waits_after_few(post: Post) -> None:
    """After a journey with a few the next sets out at once with what has ended meanwhile."""
    made = await ends(post, 30)
    assert (await journeys(post, made[:10], made[10:20], made[20:]))[:2] == [10, 10]
