"""Endpoints that a breaker disabled and that nobody stopped: whoever leads stops them, and no others."""

from __future__ import annotations

import dataclasses

import pytest

from hookfuse import Outcome, Policy, State, Streak
from hookfuse.core.duty import Duty
from hookfuse.core.standing import standing_of
from hookfuse.core.state import Override, Transition
from hookfuse.delivery.reconcile import Reconciler
from tests.sampling.conftest import Fleet

pytestmark = pytest.mark.anyio

DISABLES = Policy(trip=Streak(1), window=60, cool_off=600, disable_after=1)


async def disable_itself(fleet: Fleet, key: str) -> None:
    """What a worker does that is killed before it stops the endpoint."""
    made = await fleet.breakers.record(await fleet.breakers.admit(key), Outcome.FAILURE)
    await written(fleet, made)
    assert (await fleet.state(key)).state is State.DISABLED


async def written(fleet: Fleet, made: Transition | None) -> None:
    assert made is not None
    await fleet.store.keep_transitions([made])


async def test_stopped_with_reason_and_time(fleet: Fleet) -> None:
    """All endpoints of a breaker that disabled itself are stopped at the next look, and the message waits."""
    for number in range(2):
        await fleet.endpoint(f"ep_{number}", DISABLES, app_id="app_1", breaker_key="shared")
    await disable_itself(fleet, "app_1/shared")
    await Reconciler(fleet.store, fleet.breakers).look()
    for number in range(2):
        (found,) = await fleet.store.endpoints([f"ep_{number}"])
        assert (found.enabled, found.disabled_reason) == (False, "breaker: streak")
        assert found.disabled_ms == round(fleet.clock.now() * 1000)
        await fleet.store.accept_for(fleet.bench.message("app_1"), f"ep_{number}")
    assert not await fleet.bench.claim()


@pytest.mark.parametrize("why", ["by hand", "for a time", "forced closed", "enabled meanwhile"])
async def test_left_alone(fleet: Fleet, why: str) -> None:
    """What an operator said of a breaker stays the breaker's, and one that comes back by itself stops nothing."""
    policy = dataclasses.replace(DISABLES, reenable_after=60.0) if why == "for a time" else DISABLES
    key = await fleet.endpoint("ep_1", policy)
    if why == "by hand":
        await written(fleet, await fleet.breakers.disable(key, reason="fraud", actor="anna"))
    else:
        await disable_itself(fleet, key)
    if why == "forced closed":
        await fleet.breakers.force_closed(key)
    elif why == "enabled meanwhile":
        # Whoever should have written this down is slow.
        await fleet.breakers.enable(key)
    await Reconciler(fleet.store, fleet.breakers).look()
    assert await fleet.disabled() == (False, "")


async def test_a_replaced_leader_stops_nothing(fleet: Fleet) -> None:
    """A leader that was paused and replaced stops no endpoint when it goes on."""
    key = await fleet.endpoint("ep_1", DISABLES)
    await disable_itself(fleet, key)
    (old,) = await fleet.store.hold_duties([Duty.NOTICES], "paused", 1)
    fleet.clock.advance(1)
    (new,) = await fleet.store.hold_duties([Duty.NOTICES], "next", 60_000)
    reconciler = Reconciler(fleet.store, fleet.breakers)
    await reconciler.look(old)
    assert await fleet.disabled() == (False, "")
    await reconciler.look(new)
    assert await fleet.disabled() == (True, "breaker: streak")


@pytest.mark.parametrize("order", ["disabled", "forced", "open"])
async def test_breakers_that_guard_nobody_are_closed(fleet: Fleet, order: str) -> None:
    """A breaker that lost its endpoint unseen is closed at the next look, with its standing; others stay."""
    gone, stays = await fleet.endpoint("ep_1", DISABLES), await fleet.endpoint("ep_2", DISABLES)
    for key in (gone, stays):
        if order == "disabled":
            await disable_itself(fleet, key)
        elif order == "forced":
            await written(fleet, await fleet.breakers.force_open(key, reason="maintenance"))
        else:
            await written(fleet, await fleet.breakers.force_open(key))
            await fleet.breakers.unforce(key)
        standing = standing_of(await fleet.state(key))
        await fleet.store.keep_standings([standing] if standing is not None else [])
    await fleet.store.delete_endpoint("ep_1")
    before = await fleet.state(stays)
    await Reconciler(fleet.store, fleet.breakers).look()
    found = await fleet.state(gone)
    assert (found.state, found.override) == (State.CLOSED, Override.NONE)
    assert await fleet.state(stays) == before
    assert [each.key for each in await fleet.store.standings()] == ([] if order == "open" else [stays])
