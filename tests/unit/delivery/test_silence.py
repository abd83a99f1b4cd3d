"""Who is silent, what is set aside, and who gets no more."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hookfuse.core.delivery import Claim
from hookfuse.delivery.silence import Out, Silence
from hookfuse.testing import ManualClock

SLOTS = 20
TIMEOUT = 30.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def silence(clock: ManualClock) -> Silence:
    return Silence(SLOTS, clock.now)


def out(clock: ManualClock, count: int, name: str = "ep", ago: float = 0, timeout: float = TIMEOUT) -> list[Out]:
    return [Out(name, clock.now() - ago, timeout)] * count


def claims(*names: str) -> list[Claim]:
    return [Claim("msg", name, "app", 1, 1, "type", b"", 0, 0, 0, 0, 1, False, False) for name in names]


def taken(silence: Silence, names: Iterable[str]) -> list[str]:
    return [claim.endpoint_id for claim in silence.sift(claims(*names))[0]]


def test_a_request_that_is_out_for_a_second(clock: ManualClock, silence: Silence) -> None:
    """After a second without an answer requests hold a tenth of the slots, and their endpoint gets no more."""
    silence.look(out(clock, 10, ago=0.99))
    assert (silence.set_aside, taken(silence, ["ep", "other"])) == (0, ["ep", "other"])
    silence.look(out(clock, 10, ago=1))
    assert (silence.set_aside, taken(silence, ["ep", "other"])) == (8, ["other"])
    ((put_off,),) = [silence.sift(claims("ep"))[1]]
    assert (put_off.reason, put_off.wait_ms) == ("unanswered", 250)


def test_short_deadlines(clock: ManualClock, silence: Silence) -> None:
    """Where the deadline is short a tenth of it is long, but never less than a moment."""
    silence.look(out(clock, 10, ago=0.2, timeout=2))
    assert silence.set_aside == 8
    silence.look(out(clock, 10, ago=0.04, timeout=0.1))
    assert silence.set_aside == 0


def test_a_few_may_hang(clock: ManualClock, silence: Silence) -> None:
    """As long as those that hang fit into a tenth of the slots nothing is set aside, and nobody put off."""
    silence.look(out(clock, 2, ago=9))
    assert (silence.set_aside, taken(silence, ["ep"])) == (0, ["ep"])


def test_who_is_slow_keeps_answering(clock: ManualClock, silence: Silence) -> None:
    """An endpoint that takes long for everything is not silent once it is seen to answer, until it stops."""
    silence.look(out(clock, 10, ago=3))
    assert silence.set_aside == 8
    silence.answered("ep")
    clock.advance(0.5)
    silence.look(out(clock, 10, ago=3))
    assert (silence.set_aside, taken(silence, ["ep"])) == (0, ["ep"])
    clock.advance(0.5)
    silence.look(out(clock, 9, ago=3) + out(clock, 1, ago=1))
    assert (silence.set_aside, taken(silence, ["ep"])) == (8, [])


def test_who_answers_all_but_one(clock: ManualClock, silence: Silence) -> None:
    """An endpoint that leaves one request hanging and answers what comes later gets more, after a lull too."""
    hanging = out(clock, 10, "dead") + out(clock, 1)
    clock.advance(0.5)
    silence.look(hanging)
    silence.answered("ep")
    for _ in range(4):
        clock.advance(0.5)
        silence.look(hanging)
        assert taken(silence, ["ep", "dead"])[:1] == ["ep"]
    assert (silence.set_aside, taken(silence, ["dead"])) == (9, [])
    silence.look([*hanging, *out(clock, 1)])
    clock.advance(1)
    silence.look([*hanging, *out(clock, 1, ago=1)])
    assert taken(silence, ["ep"]) == []


def test_an_answer_counts_at_once(clock: ManualClock, silence: Silence) -> None:
    """Whoever has answered since the last look is not put off: a FIFO endpoint would wait after every slow answer."""
    silence.look(out(clock, 10, ago=2) + out(clock, 1, "fifo", ago=1.2))
    assert taken(silence, ["fifo"]) == []
    silence.answered("fifo")
    assert taken(silence, ["fifo"]) == ["fifo"]


def test_answers_are_forgotten(clock: ManualClock, silence: Silence) -> None:
    """When an endpoint answered is known for a second, and longer only while a request hangs."""
    for name in ("ep", "other"):
        silence.answered(name)
    hanging = out(clock, 1)
    clock.advance(2)
    silence.look(hanging)
    assert list(silence._answered) == ["ep"]
    silence.look()
    assert not silence._answered


def test_several_lines(clock: ManualClock, silence: Silence) -> None:
    """Requests of several lines count together, and what is young costs no look."""
    young = Out("young", clock.now(), TIMEOUT)

    def line() -> Iterable[Out]:
        yield from out(clock, 5, ago=2)
        yield young
        raise AssertionError("nobody looks beyond what is young")

    silence.look(line(), out(clock, 5, "other", ago=2))
    assert (silence.set_aside, taken(silence, ["ep", "other", "young"])) == (8, ["young"])


def test_no_more_is_set_aside_than_there_are_slots(clock: ManualClock, silence: Silence) -> None:
    """What is set aside has a bound, so that open connections have one."""
    silence.look(out(clock, 10 * SLOTS, ago=2))
    assert silence.set_aside == SLOTS
