"""When a delivery that waits goes next."""

from __future__ import annotations

import pytest

from hookfuse import Breakers, Outcome, Policy, Streak
from hookfuse.core.endpoint import Stop
from hookfuse.core.next_step import NextStep, next_step
from hookfuse.core.state import Snapshot
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock

EP = "ep_1"
POLICY = Policy(trip=Streak(1), window=60, cool_off=30, jitter=0)


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.breakers = Breakers(MemoryStore(clock=self.clock), policy=POLICY)

    @property
    def now_ms(self) -> int:
        return int(self.clock.now() * 1000)

    def told(self, outcome: Outcome) -> None:
        self.breakers.record(self.breakers.admit(EP), outcome)

    def step(self, due_in: float, stop: Stop = Stop.NONE) -> NextStep:
        seen: Snapshot = self.breakers.inspect(EP)
        return next_step(self.now_ms + int(due_in * 1000), stop, seen)

    def seconds(self, due_in: float) -> float | None:
        at_ms = self.step(due_in).at_ms
        return None if at_ms is None else (at_ms - self.now_ms) / 1000


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_behind_a_closed_breaker(scene: Scene) -> None:
    """It goes when it is due; what is overdue waits for nothing but a worker."""
    assert scene.seconds(30) == 30
    assert scene.seconds(-1) == -1


def test_what_has_ended_has_no_next_step() -> None:
    """Without a due time there is nothing to come."""
    assert next_step(None, Stop.DISABLED, None) == NextStep(None)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (Stop.PAUSED, "endpoint_paused"),
        (Stop.APP_PAUSED, "application_paused"),
        (Stop.DISABLED | Stop.PAUSED, "endpoint_disabled"),
    ],
)
def test_behind_a_stopped_endpoint(scene: Scene, stop: Stop, reason: str) -> None:
    """It waits for someone, and says for what."""
    assert scene.step(-1, stop) == NextStep(None, reason)


def test_behind_an_open_breaker(scene: Scene) -> None:
    """It waits for the probe, or for its own time if that is later; once the probe is due, it may be the probe."""
    scene.told(Outcome.FAILURE)
    assert scene.seconds(-5) == 30
    assert scene.seconds(300) == 300
    assert scene.step(0).reason == "breaker_open"
    scene.clock.advance(31)
    assert scene.seconds(-5) == -1


def test_behind_a_probe(scene: Scene) -> None:
    """While others probe it may go at any moment."""
    scene.told(Outcome.FAILURE)
    scene.clock.advance(30)
    assert scene.breakers.admit(EP).probe
    assert scene.step(-5) == NextStep(scene.now_ms - 5_000, "breaker_half_open")


def test_behind_an_override(scene: Scene) -> None:
    """It waits for the end of the override, or for someone; one that lets everything pass holds nothing."""
    scene.breakers.force_open(EP, until=scene.clock.now() + 90)
    assert scene.seconds(0) == 90
    scene.breakers.force_open(EP)
    assert scene.step(0) == NextStep(None, "breaker_forced_open")
    scene.breakers.force_closed(EP)
    assert scene.seconds(0) == 0


def test_behind_a_disabled_breaker(scene: Scene) -> None:
    """It waits for someone, unless the breaker comes back by itself."""
    scene.breakers.disable(EP)
    assert scene.step(0) == NextStep(None, "breaker_disabled")


def test_behind_a_retry_after(scene: Scene) -> None:
    """It waits for as long as the endpoint asked for."""
    scene.told(Outcome.throttled(retry_after=45))
    assert scene.seconds(0) == 45
    assert scene.step(0).reason == "breaker_throttled"
