"""Successes of healthy calls, waiting to be told to the store a few milliseconds later, in one call per shard."""

from __future__ import annotations

from hookfuse.core.policy import Policy
from hookfuse.stores.redis.commands import Command, Commands


class Outbox:
    """Successes by key, in the order of each key. Its owner sees to it that one caller at a time uses it."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._waiting: dict[str, list[_Run]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, key: str, policy: Policy, generation: int, latency_ms: float) -> None:
        runs = self._waiting.get(key)
        if runs is None:
            self._waiting[key] = [_Run(policy, generation, latency_ms)]
            return
        last = runs[-1]
        same = last.policy is policy and last.generation == generation
        timed = latency_ms >= 0
        # A rule about latencies must see each of them; all others need only the sum.
        if same and not policy.judges_latency and timed is (last.latency_ms >= 0):
            last.times += 1
            last.latency_ms += latency_ms if timed else 0
        else:
            runs.append(_Run(policy, generation, latency_ms))

    def parts(self, shards: int) -> list[list[str]]:
        """The keys for which something waits, in parts of so many shards each. They wait on until they are taken."""
        by_shard: dict[int, list[str]] = {}
        for key in self._waiting:
            by_shard.setdefault(self._commands.keys.shard(key), []).append(key)
        groups = list(by_shard.values())
        return [[key for group in groups[at : at + shards] for key in group] for at in range(0, len(groups), shards)]

    def take(self, key: str) -> list[Command]:
        """What waits for one key, to go before a failure of it."""
        return [self._command(key, run) for run in self._waiting.pop(key, ())]

    def clear(self) -> None:
        self._waiting = {}

    def _command(self, key: str, run: _Run) -> Command:
        return self._commands.successes(key, run.policy, run.generation, run.times, run.latency_ms)


class _Run:
    """Successes in a row that carry the same policy and generation."""

    __slots__ = ("generation", "latency_ms", "policy", "times")

    def __init__(self, policy: Policy, generation: int, latency_ms: float) -> None:
        self.policy = policy
        self.generation = generation
        self.times = 1
        self.latency_ms = latency_ms
