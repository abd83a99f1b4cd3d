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


def everything(outbox: Outbox) -> list[Command]:
    return [command for keys in outbox.parts(1) for key in keys for command in outbox.take(key)]


def test_successes_are_summed(outbox: Outbox) -> None:
    """Successes that carry the same are one command, with the sum of their latencies."""
    for latency_ms in (1.0, 2.0, 3.5):
        outbox.add("ep", PLAIN, 7, latency_ms)
    assert told(everything(outbox)) == [("ep", 7, 3, 7)]
    assert not outbox
    assert everything(outbox) == []
    outbox.add("ep", PLAIN, 7, 2.0)
    assert told(everything(outbox)) == [("ep", 7, 1, 2)], "what is taken is not joined any more"


def test_what_differs_is_told_apart(outbox: Outbox) -> None:
    """Another generation or policy begins another command, also when the first comes back."""
    for policy, generation in ((PLAIN, 7), (PLAIN, 8), (OTHER, 8), (PLAIN, 8), (PLAIN, 8)):
        outbox.add("ep", policy, generation, 1.0)
    assert told(everything(outbox)) == [("ep", 7, 1, 1), ("ep", 8, 1, 1), ("ep", 8, 1, 1), ("ep", 8, 2, 2)]


def test_untimed_successes(outbox: Outbox) -> None:
    """Successes without a latency are summed too, but never with those that have one."""
    for latency_ms in (-1.0, -1.0, 0.0, 4.0, -1.0, 2.0):
        outbox.add("ep", PLAIN, 7, latency_ms)
    assert told(everything(outbox)) == [("ep", 7, 2, -1), ("ep", 7, 2, 4), ("ep", 7, 1, -1), ("ep", 7, 1, 2)]


def test_rules_about_latencies_see_each(outbox: Outbox) -> None:
    """A policy that judges latencies gets every one of them."""
    for latency_ms in (1.0, 2.0, -1.0, -1.0):
        outbox.add("ep", TIMED, 7, latency_ms)
    assert told(everything(outbox)) == [("ep", 7, 1, 1), ("ep", 7, 1, 2), ("ep", 7, 1, -1), ("ep", 7, 1, -1)]


def test_taking_one_key(outbox: Outbox) -> None:
    """What waits for one key can be taken alone; what comes later begins anew, and nothing is told twice."""
    for key in ("a", "b", "a"):
        outbox.add(key, PLAIN, 7, 1.0)
    assert told(outbox.take("a")) == [("a", 7, 2, 2)]
    assert outbox.take("a") == []
    outbox.add("a", PLAIN, 7, 5.0)
    assert sorted(told(everything(outbox))) == [("a", 7, 1, 5), ("b", 7, 1, 1)]


def test_parts(outbox: Outbox) -> None:
    """Keys leave in parts of so many shards, each key in one of them, and wait until they are taken."""
    keys = [f"ep_{number}" for number in range(100)]
    for key in keys:
        outbox.add(key, PLAIN, 7, 1.0)
    shard = Keys("test", 4).shard
    parts = outbox.parts(3)
    assert sorted(len({shard(key) for key in part}) for part in parts) == [1, 3]
    assert sorted(key for part in parts for key in part) == sorted(keys)
    assert sum(len(outbox.take(key)) for key in keys) == 100
    assert outbox.parts(3) == []


def test_cleared(outbox: Outbox) -> None:
    """What is cleared is not told, nor joined by what comes later."""
    outbox.add("ep", PLAIN, 7, 1.0)
    outbox.clear()
    assert not outbox
    outbox.add("ep", PLAIN, 7, 2.0)
    assert told(everything(outbox)) == [("ep", 7, 1, 2)]
