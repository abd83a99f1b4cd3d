"""Redis is away while the leader samples: nothing is judged or lost, and the first sample afterwards judges."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator

import pytest

from hookfuse import Policy, Rate, State
from hookfuse.errors import StoreUnavailable
from tests.sampling.conftest import FIRST, Fleet, together
from tests.servers.redis import Server

pytestmark = pytest.mark.anyio

SAMPLED = Policy(trip=Rate(0.5, min_calls=10), window=60, cool_off=600, evaluate="sampled", sample_every=30)


@pytest.fixture
async def away(postgres_url: str) -> AsyncIterator[tuple[Fleet, Server]]:
    """A fleet, and a Redis that may be taken from it."""
    server = Server("redis")
    server.start()
    try:
        async with together(postgres_url, server.url) as fleet:
            yield fleet, server
    finally:
        server.remove()


async def test_judged_when_it_is_back(away: tuple[Fleet, Server]) -> None:
    """What was settled meanwhile is in the tallies: the endpoint that failed is opened once, the healthy one is not."""
    fleet, server = away
    dead, well = [await fleet.endpoint(name, SAMPLED) for name in ("ep_dead", "ep_well")]
    await fleet.sample()
    server.signal(signal.SIGSTOP)
    try:
        await fleet.attempts(failed=12, id_="ep_dead")
        await fleet.attempts(ok=12, id_="ep_well")
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await fleet.sampler.sample(FIRST)
    finally:
        server.signal(signal.SIGCONT)
    sampled = await fleet.sample()
    assert [made.key for made in sampled.judgement.transitions] == [dead]
    assert not sampled.rebuilt
    assert [(await fleet.state(key)).state for key in (dead, well)] == [State.OPEN, State.CLOSED]
    assert (await fleet.sample()).judgement.transitions == ()
