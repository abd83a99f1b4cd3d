"""Guarded blocks and protected functions: what a store's hot path must keep, whichever form asks it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Streak
from hookfuse.core.state import State
from hookfuse.errors import BreakerOpen, InvalidInput, InvalidKey
from hookfuse.testing.contract.world import OnBothFaces, World

TWO = Policy(trip=Streak(2), cool_off=30)


def succeed() -> str:
    return "done"


def fail() -> str:
    raise ConnectionError("down")


def cancel() -> str:
    raise asyncio.CancelledError


def never() -> str:
    pytest.fail("a refused call must not run")


def fail_once(call: Callable[[], str]) -> None:
    with pytest.raises(ConnectionError, match="down"):
        call()


class Guarding(OnBothFaces):
    @pytest.fixture(params=["guarded", "protected"])
    def form(self, request: pytest.FixtureRequest) -> str:
        form: str = request.param
        return form

    def test_guarded_success(self, world: World, form: str) -> None:
        """A call that ends well returns its result, and is one timed success."""
        breakers = world.breakers(TWO)
        for _ in range(3):
            assert breakers.run(form, succeed, key="ep") == "done"
        seen = breakers.inspect("ep")
        assert (seen.counts.ok, seen.counts.timed, seen.totals.ok, seen.streak) == (3, 3, 3, 0)

    def test_guarded_failures_trip(self, world: World, form: str) -> None:
        """Exceptions go on to the caller, are kept, and trip; then calls are refused without being made."""
        breakers = world.breakers(TWO)
        for _ in range(2):
            fail_once(lambda: breakers.run(form, fail, key="ep"))
        with pytest.raises(BreakerOpen, match="failures in a row: 2, limit 2") as caught:
            breakers.run(form, never, key="ep")
        refusal = caught.value
        assert (refusal.key, refusal.state, refusal.reason, refusal.retry_after) == ("ep", State.OPEN, "open", 30)
        assert breakers.inspect("ep").failures[-1][:2] == ("ConnectionError", "down")
        assert [each.after for each in world.seen] == [State.OPEN]

    def test_guarded_success_in_between(self, world: World, form: str) -> None:
        """A success resets the streak, wherever it was counted."""
        breakers = world.breakers(TWO)
        for _ in range(3):
            fail_once(lambda: breakers.run(form, fail, key="ep"))
            breakers.run(form, succeed, key="ep")
        assert breakers.inspect("ep").state is State.CLOSED

    def test_guarded_probe(self, world: World, form: str) -> None:
        """After the cool-off a guarded call is the probe: failing it opens again, succeeding closes."""
        breakers = world.breakers(TWO)
        world.fail(breakers, times=2)
        world.clock.advance(30)
        fail_once(lambda: breakers.run(form, fail, key="ep"))
        assert breakers.inspect("ep").trips == 2
        world.clock.advance(30)
        assert breakers.run(form, succeed, key="ep") == "done"
        assert breakers.inspect("ep").state is State.CLOSED

    def test_guarded_cancel(self, world: World, form: str) -> None:
        """A cancelled call counts nothing, and a cancelled probe is free at once."""
        breakers = world.breakers(TWO)
        with pytest.raises(asyncio.CancelledError):
            breakers.run(form, cancel, key="well")
        assert breakers.inspect("well").totals == (0, 0, 0)
        world.fail(breakers, times=2)
        world.clock.advance(30)
        with pytest.raises(asyncio.CancelledError):
            breakers.run(form, cancel, key="ep")
        assert breakers.inspect("ep").totals.failed == 2
        assert breakers.admit("ep").probe

    def test_guarded_classify(self, world: World, form: str) -> None:
        """`classify` reads the exceptions of one call, or of all."""
        breakers = world.breakers(TWO, classify=lambda _: Outcome.IGNORED)
        for _ in range(5):
            fail_once(lambda: breakers.run(form, fail, key="ep"))
        assert breakers.inspect("ep").totals.failed == 0
        fail_once(lambda: breakers.run(form, fail, key="ep", classify=lambda _: Outcome.throttled(9)))
        assert breakers.admit("ep").retry_after == 9
        with pytest.raises(InvalidInput, match="classify must be a function"):
            breakers.run(form, never, key="ep", classify="FAILURE")

    def test_guarded_overrides(self, world: World, form: str) -> None:
        """Forced closed every call passes and only totals count it; forced open none does."""
        breakers = world.breakers(TWO)
        breakers.force_closed("ep")
        for _ in range(3):
            fail_once(lambda: breakers.run(form, fail, key="ep"))
        breakers.run(form, succeed, key="ep")
        seen = breakers.inspect("ep")
        assert (seen.state, seen.streak, seen.totals.failed, seen.totals.ok) == (State.CLOSED, 0, 3, 1)
        breakers.force_open("ep", reason="maintenance")
        with pytest.raises(BreakerOpen, match="maintenance"):
            breakers.run(form, never, key="ep")

    def test_guarded_shadow(self, world: World, form: str) -> None:
        """In shadow mode what would be refused passes, and its outcome is dropped."""
        breakers = world.breakers(Policy(trip=Streak(2), cool_off=30, mode="shadow"))
        for _ in range(4):
            fail_once(lambda: breakers.run(form, fail, key="ep"))
        assert breakers.run(form, succeed, key="ep") == "done"
        seen = breakers.inspect("ep")
        assert (seen.state, seen.totals.failed, seen.totals.ok) == (State.OPEN, 2, 0)

    def test_guarded_with_its_own_policy(self, world: World, form: str) -> None:
        """Each key's calls carry its own policy."""
        one = Policy(trip=Streak(1))
        breakers = world.breakers(TWO, policy_for=lambda key: one if key == "frail" else None)
        for key in ("frail", "ep"):
            fail_once(lambda key=key: breakers.run(form, fail, key=key))  # type: ignore[misc]
        assert [breakers.inspect(key).state for key in ("frail", "ep")] == [State.OPEN, State.CLOSED]

    def test_guarded_fallback(self, world: World) -> None:
        """A refused call returns what the fallback makes of it; a failed one still raises."""
        breakers = world.breakers(TWO)
        for _ in range(2):
            fail_once(lambda: breakers.run("protected", fail, key="ep", fallback=succeed))
        assert breakers.run("protected", never, key="ep", fallback=succeed) == "done"

    @pytest.mark.parametrize("key", ["", None, 3, b"ep", ["ep"], "x" * 513, "é" * 257, "\ud800"])
    def test_guarded_bad_keys(self, world: World, form: str, key: Any) -> None:
        """A key that is no usable string is refused before the call is made."""
        breakers = world.breakers(TWO)
        with pytest.raises(InvalidKey):
            breakers.run(form, never, key=(lambda: key) if form == "protected" else key)
