"""The published cases of sampled evaluation, through the real stores: what was settled, sampled tick by tick."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hookfuse import Policy, State, profiles
from tests.sampling.conftest import Fleet

pytestmark = pytest.mark.anyio

CLOSED, OPEN, HALF_OPEN = State.CLOSED, State.OPEN, State.HALF_OPEN


@dataclass(frozen=True)
class Tick:
    after: float
    failed: int
    ok: int
    state: State


def policy(fail: float, *, close: float = 10, open_for: float = 30) -> Policy:
    return profiles.sampled(
        failure_percent=fail, success_percent=close, cool_off=open_for, sample_every=5, window=60, min_calls=10
    )


TABLES = {
    "A": (
        policy(70),
        [
            Tick(60, 3, 9, CLOSED),
            Tick(60, 5, 10, CLOSED),
            Tick(60, 10, 1, OPEN),
            Tick(60, 20, 0, HALF_OPEN),
            Tick(60, 2, 3, CLOSED),
            Tick(60, 1, 4, CLOSED),
        ],
    ),
    # Twice as slow as published: a tally is of ten seconds, and what it counted while the breaker changed is left out.
    "B": (
        policy(50, open_for=60),
        [
            Tick(10, 1, 2, CLOSED),
            Tick(10, 13, 1, OPEN),
            Tick(62, 10, 1, HALF_OPEN),
            Tick(10, 0, 2, CLOSED),
            Tick(10, 14, 0, OPEN),
        ],
    ),
    "C": (
        policy(70),
        [
            Tick(31, 13, 1, OPEN),
            Tick(31, 13, 1, HALF_OPEN),
            Tick(31, 15, 0, OPEN),
            Tick(31, 17, 1, HALF_OPEN),
            Tick(31, 13, 0, OPEN),
        ],
    ),
    "D": (policy(60), [Tick(60, 3, 1, CLOSED)]),
    "E": (policy(50), [Tick(60, 3, 7, CLOSED), Tick(60, 6, 4, OPEN)]),
}
TRIPS = {"A": 1, "B": 2, "C": 3, "D": 0, "E": 1}


@pytest.mark.parametrize("name", TABLES)
async def test_table(fleet: Fleet, name: str) -> None:
    """Each tick of the table finds what the window holds and leaves the breaker in the state that it says."""
    chosen, ticks = TABLES[name]
    key = await fleet.endpoint(policy=chosen, cap=40)
    for tick in ticks:
        fleet.clock.advance(tick.after)
        await fleet.forget_tallies()
        await fleet.attempts(tick.ok, tick.failed)
        await fleet.sample()
        assert (await fleet.state(key)).state is tick.state, tick
    assert (await fleet.state(key)).trips == TRIPS[name]
