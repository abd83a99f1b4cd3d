"""When failures are taken to be our own fault."""

from __future__ import annotations

import pytest

from hookfuse.core.sending import SendResult, Trouble
from hookfuse.delivery.egress import EgressWatch
from hookfuse.testing.sender import answer, trouble

MUTE = trouble(Trouble.CONNECT)
LATER = 1000.0


@pytest.mark.parametrize(
    ("answered", "failed", "suspect"),
    [
        (0, 19, False),
        (0, 20, True),
        (1, 18, False),
        (1, 19, True),
        (2, 37, False),
        (2, 38, True),
        (5, 94, False),
        (5, 95, True),
        (6, 94, False),
    ],
)
def test_egress_watch_by_number_and_share(answered: int, failed: int, suspect: bool) -> None:
    """It takes twenty endpoints of which 95 in a hundred fail, and not one less."""
    watch = EgressWatch()
    for number in range(answered):
        assert not watch.saw(f"well_{number}", answer(200), LATER)
    said = [watch.saw(f"ep_{number}", MUTE, LATER) for number in range(failed)]
    assert said == [False] * (failed - 1) + [suspect]
    assert watch.suspect is suspect


@pytest.mark.parametrize("before", [0.0, 1.3, 2.4, 2.6, 4.9, 6.0], ids=lambda before: f"{before:g} s after another")
@pytest.mark.parametrize(("seconds", "suspect"), [(0.0, True), (2.4, True), (4.9, True), (5.1, False), (9.0, False)])
def test_egress_watch_by_time(seconds: float, suspect: bool, before: float) -> None:
    """Twenty that fail within five seconds are a suspicion, and no longer apart, whatever was seen before them."""
    watch = EgressWatch()
    watch.saw("ep_0", MUTE, LATER - before)
    for number in range(20):
        watch.saw(f"ep_{number}", MUTE, LATER + number * seconds / 19)
    assert watch.suspect is suspect


def test_egress_watch_by_time_in_bursts() -> None:
    """Bursts add up only as long as the first of them is not older than five seconds."""
    watch = EgressWatch()
    bursts = [LATER] * 10 + [LATER + 4.9] + [LATER + 7.3] * 9
    assert not any(watch.saw(f"ep_{number}", MUTE, at) for number, at in enumerate(bursts))


def test_egress_watch_counts_each_endpoint_once() -> None:
    """An endpoint counts with its last result: one that answered before and fails now is one that fails."""
    watch = EgressWatch()
    for number in range(20):
        watch.saw(f"ep_{number}", answer(200), LATER)
    said = [watch.saw(f"ep_{number}", MUTE, LATER + 1) for number in range(19)]
    assert said == [False] * 18 + [True]


def test_egress_watch_needs_many_endpoints() -> None:
    """A few endpoints that fail are no suspicion; twenty of which nearly all fail are; one response ends it."""
    told: list[bool] = []
    watch = EgressWatch(told.append)
    mute, well = MUTE, answer(500)
    for number in range(19):
        assert not watch.saw(f"ep_{number}", mute, 1.0)
    assert not watch.saw("ep_0", mute, 1.0)
    assert watch.saw("ep_19", mute, 1.0)
    assert told == [True]
    assert not watch.saw("ep_1", well, 1.1)
    assert told == [True, False]
    assert not watch.saw("ep_1", mute, 2.0)


def test_egress_watch_forgets() -> None:
    """Failures that are further apart than five seconds do not add up."""
    watch = EgressWatch()
    for number in range(60):
        assert not watch.saw(f"ep_{number}", trouble(Trouble.TIMEOUT), number * 0.3)


def test_egress_watch_with_some_healthy() -> None:
    """If one in ten answers, the fault is not ours."""
    watch = EgressWatch()
    for number in range(100):
        result = answer(200) if number % 10 == 0 else trouble(Trouble.TIMEOUT)
        assert not watch.saw(f"ep_{number}", result, 1.0)


@pytest.mark.parametrize(
    "result",
    [
        trouble(Trouble.BLOCKED),
        trouble(Trouble.BLOCKED, latency=0),
        trouble(Trouble.LOCAL, latency=0),
        trouble(Trouble.PROTOCOL),
    ],
    ids=["blocked", "blocked at once", "not tried", "nonsense"],
)
def test_egress_watch_heeds_what_was_on_its_way(result: SendResult) -> None:
    """What was blocked, not even tried, or answered with nonsense raises no suspicion, and is not excused by one."""
    watch = EgressWatch()
    assert not any(watch.saw(f"ep_{number}", result, 1.0) for number in range(100))
    assert not watch.saw("ep_other", trouble(Trouble.CONNECT), 1.0)
    for number in range(20):
        watch.saw(f"down_{number}", trouble(Trouble.CONNECT), 1.0)
    assert watch.suspect
    assert not watch.saw("ep_0", result, 1.0)
    assert watch.suspect


@pytest.mark.parametrize("kind", [kind for kind in Trouble if kind not in (Trouble.BLOCKED, Trouble.PROTOCOL)])
def test_egress_watch_knows_a_network_that_is_down(kind: Trouble) -> None:
    """However a network fails everyone on the way, and be it for want of a route, that is a suspicion."""
    watch = EgressWatch()
    assert [watch.saw(f"ep_{number}", trouble(kind), 1.0) for number in range(20)] == [False] * 19 + [True]
