"""What waits in the outbox is told as few commands, in the order of each key, and nothing is lost or told twice."""

from __future__ import annotations

import pytest

from hookfuse import Latency, Policy, Streak
from hookfuse.stores.redis.commands import Command, Commands
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.outbox import Outbox

PLAIN = Policy(trip=Streak(5))
OTHER = Policy(trip=Streak(6))
TIMED = Policy(trip=Latency(1.0, min_calls=2))


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(Commands(Keys("test", 4)))


def told(commands: list[Command]) -> list[tuple[object, ...]]:
    """Key, generation, how many, and the sum of their latencies (-1: untimed) of each command."""
    return [(command.key, *command.args[1:4]) for command in commands]


def test_successes_are_summed(outbox: Outbox) -> None:
    """Successes that carry the same are one command, with the sum of their latencies."""
    for latency_ms in (1.0, 2.0, 3.5):
        outbox.add("ep", PLAIN, 7, latency_ms)
    assert told(outbox.take_all()) == [("ep", 7, 3, 7)]
    assert not outbox
    assert outbox.take_all() == []
    outbox.add("ep", PLAIN, 7, 2.0)
    assert told(outbox.take_all()) == [("ep", 7, 1, 2)], "what is taken is not joined any more"


def test_what_differs_is_told_apart(outbox: Outbox) -> None:
    """Another generation or policy begins another command, also when the first comes back."""
    for policy, generation in ((PLAIN, 7), (PLAIN, 8), (OTHER, 8), (PLAIN, 8), (PLAIN, 8)):
        outbox.add("ep", policy, generation, 1.0)
    assert told(outbox.take_all()) == [("ep", 7, 1, 1), ("ep", 8, 1, 1), ("ep", 8, 1, 1), ("ep", 8, 2, 2)]


def test_untimed_successes(outbox: Outbox) -> None:
    """Successes without a latency are summed too, but never with those that have one."""
    for latency_ms in (-1.0, -1.0, 0.0, 4.0, -1.0, 2.0):
        outbox.add("ep", PLAIN, 7, latency_ms)
    assert told(outbox.take_all()) == [("ep", 7, 2, -1), ("ep", 7, 2, 4), ("ep", 7, 1, -1), ("ep", 7, 1, 2)]


def test_rules_about_latencies_see_each(outbox: Outbox) -> None:
    """A policy that judges latencies gets every one of them."""
    for latency_ms in (1.0, 2.0, -1.0, -1.0):
        outbox.add("ep", TIMED, 7, latency_ms)
    assert told(outbox.take_all()) == [("ep", 7, 1, 1), ("ep", 7, 1, 2), ("ep", 7, 1, -1), ("ep", 7, 1, -1)]


def test_taking_one_key(outbox: Outbox) -> None:
    """What waits for one key can be taken alone; what comes later begins anew, and nothing is told twice."""
    for key in ("a", "b", "a"):
        outbox.add(key, PLAIN, 7, 1.0)
    assert told(outbox.take("a")) == [("a", 7, 2, 2)]
    assert outbox.take("a") == []
    outbox.add("a", PLAIN, 7, 5.0)
    assert sorted(told(outbox.take_all())) == [("a", 7, 1, 5), ("b", 7, 1, 1)]
