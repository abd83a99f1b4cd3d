"""A call that failed or was refused leaves nothing to the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Outcome, Policy, Streak

NEVER = Policy(trip=Streak(1_000_000))


class Down(Exception):
    """Unlike a built-in exception, it can be watched."""


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def fail() -> None:
    raise Down


async def fail_async() -> None:
    raise Down


def test_failed() -> None:
    """The exception of a failed call is gone once its caller lets go of it."""
    breakers = Breakers(policy=NEVER)

    def block() -> None:
        with breakers.guard("ep") as call:
            assert call.key == "ep"
            fail()

    def recorded() -> None:
        with breakers.guard("ep") as call:
            try:
                fail()
            except Down as error:
                call.record(Outcome.FAILURE, error=error)
                raise

    for guarded in (breakers.protect(key="ep")(fail), block, recorded):
        with pytest.raises(Down) as caught:
            guarded()
        seen = weakref.ref(caught.value)
        del caught
        assert seen() is None
    assert breakers.inspect("ep").totals.failed == 3


@pytest.mark.parametrize("order", ["disable", "force_open", None])
def test_refused(order: str | None) -> None:
    """So is a refusal, whatever it is for."""
    breakers = Breakers(policy=Policy(trip=Streak(1)))
    breakers.record(breakers.admit("ep"), Outcome.FAILURE)
    if order is not None:
        getattr(breakers, order)("ep")

    def block() -> None:
        with breakers.guard("ep"):
            fail()

    for guarded in (breakers.protect(key="ep")(fail), block):
        with pytest.raises(BreakerOpen) as caught:
            guarded()
        seen = weakref.ref(caught.value)
        del caught
        assert seen() is None


@pytest.mark.parametrize(("policy", "raised"), [(NEVER, Down), (Policy(trip=Streak(1)), BreakerOpen)])
def test_tasks(policy: Policy, raised: type[Exception]) -> None:
    """For asyncio it is the same."""

    async def scenario() -> None:
        breakers = AsyncBreakers(policy=policy)
        await breakers.record(await breakers.admit("ep"), Outcome.FAILURE)

        async def block() -> None:
            async with breakers.guard("ep") as call:
                assert call.key == "ep"
                await fail_async()

        for guarded in (breakers.protect(key="ep")(fail_async), block):
            with pytest.raises(raised) as caught:
                await guarded()
            seen = weakref.ref(caught.value)
            del caught
            assert seen() is None

    asyncio.run(scenario())
