"""Admissions for which nobody need be asked, and successes that change nothing."""

from __future__ import annotations

import pytest

from hookfuse import AsyncBreakers, Outcome, Policy, Slow, Streak
from hookfuse.errors import AlreadySettled
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def breakers() -> AsyncBreakers:
    return AsyncBreakers(MemoryStore(clock=ManualClock()), policy=Policy(trip=Streak(2), cool_off=30))


async def test_a_closed_breaker_admits_at_once(breakers: AsyncBreakers) -> None:
    """A success that is counted at once is what a recorded one is, latency and all."""
    for latency in (0.25, 0.75):
        admission = breakers.admit_at_once("ep_1")
        assert admission is not None
        assert breakers.count_at_once(admission, latency)
    await breakers.record(await breakers.admit("ep_2"), Outcome.OK, latency=0.25)
    await breakers.record(await breakers.admit("ep_2"), Outcome.OK, latency=0.75)
    assert (await breakers.inspect("ep_1")).counts == (await breakers.inspect("ep_2")).counts


async def test_what_was_admitted_at_once_may_fail(breakers: AsyncBreakers) -> None:
    """Its failure is recorded as any other, and trips the breaker; then nobody is admitted at once."""
    for trips in (False, True):
        admission = breakers.admit_at_once("ep_1")
        assert admission is not None
        made = await breakers.record(admission, Outcome.FAILURE)
        assert (made is not None) is trips
    assert breakers.admit_at_once("ep_1") is None
    assert not (await breakers.admit("ep_1")).allowed


async def test_a_slow_success_is_recorded() -> None:
    """What may trip a breaker is not counted at once, so that its transition is known to who caused it."""
    policy = Policy(trip=Slow(share=0.5, over=1.0, min_calls=1), cool_off=30)
    breakers = AsyncBreakers(MemoryStore(clock=ManualClock()), policy=policy)
    admission = breakers.admit_at_once("ep_1")
    assert admission is not None
    assert not breakers.count_at_once(admission, 1.0)
    assert await breakers.record(admission, Outcome.OK, latency=1.0) is not None


async def test_once(breakers: AsyncBreakers) -> None:
    """An admission is settled once, one way or the other."""
    admission = breakers.admit_at_once("ep_1")
    assert admission is not None
    assert breakers.count_at_once(admission, 0.1)
    with pytest.raises(AlreadySettled):
        breakers.count_at_once(admission, 0.1)
    with pytest.raises(AlreadySettled):
        await breakers.record(admission, Outcome.OK)


async def test_who_was_asked_is_recorded(breakers: AsyncBreakers) -> None:
    """An admission that was asked for is not counted at once."""
    assert not breakers.count_at_once(await breakers.admit("ep_1"), 0.1)
