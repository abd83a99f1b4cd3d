"""How what became of claims travels to the database: many together, and nobody is kept waiting for a few."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from hookfuse.core.delivery import Claim, DeliveryState, Settlement
from hookfuse.delivery import settler as settling
from hookfuse.delivery.settler import Settler
from hookfuse.ports import DeliveryStore
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


def noting(post: Post, sizes: list[int]) -> DeliveryStore:
    """The store of a post, which notes how many come with each journey."""
    settle = post.store.settle

    async def noted(settlements: Sequence[Settlement]) -> Sequence[Claim]:
        sizes.append(len(settlements))
        await asyncio.sleep(JOURNEY)
        return await settle(settlements)

    post.store.settle = noted  # type: ignore[method-assign]
    return post.store


async def journeys(post: Post, first: Sequence[Settlement], *later: Sequence[Settlement]) -> list[int]:
    """How many go with each journey, if some end during the first one, and others turn by turn after it."""
    sizes: list[int] = []
    written = asyncio.Event()

    async def end() -> None:
        for some in later:
            for each in some:
                settler.settle(each)
            await written.wait()
            await asyncio.sleep(0)

    settler = Settler(noting(post, sizes), lambda lost: pytest.fail(str(lost)), lambda claims: written.set())
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


async def test_failures_wait_for_company(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed attempt goes along with the next end that cannot wait."""
    monkeypatch.setattr(settling, "_PAUSE", 0)
    monkeypatch.setattr(settling, "_PATIENCE", 60)
    sizes: list[int] = []
    *failed, sent = await ends(post, 3)
    settler = Settler(noting(post, sizes), lambda lost: pytest.fail(str(lost)))
    for each in failed:
        settler.settle(each._replace(state=DeliveryState.FAILED, healthy=False))
        for _ in range(20):
            await asyncio.sleep(0)
    assert sizes == []
    settler.settle(sent)
    await settler.flush()
    assert sizes == [3]


async def test_failures_alone_are_written_too(post: Post) -> None:
    """Failed attempts that find no company go by themselves."""
    sizes: list[int] = []
    made = await ends(post, 2)
    settler = Settler(noting(post, sizes), lambda lost: pytest.fail(str(lost)))
    for each in made:
        settler.settle(each._replace(state=DeliveryState.FAILED, healthy=False))
    await settler.flush()
    assert sizes == [2]
