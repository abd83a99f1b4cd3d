"""Successes of healthy calls, waiting to be told to the store a few milliseconds later, in one call per shard."""

from __future__ import annotations

from hookfuse.core.policy import Policy
from hookfuse.stores.redis.commands import Command, Commands


class Outbox:
    """Successes by key, in the order of each key. Its owner sees to it that one caller at a time uses it."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._waiting: dict[str, list[Run]] = {}
        self.open: dict[str, Run] = {}
        """The run of each key that a timed success with the same policy and generation may join."""

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, key: str, policy: Policy, generation: int, latency_ms: float) -> None:
        run = self.open.get(key)
        if run is not None and run.policy is policy and run.generation == generation and latency_ms >= 0:
            run.times += 1
            run.latency_ms += latency_ms
            return
        runs = self._waiting.setdefault(key, [])
        if latency_ms < 0 and runs and runs[-1].joins_untimed(policy, generation):
            runs[-1].times += 1
            return
        run = Run(policy, generation, latency_ms)
        runs.append(run)
        # A rule about latencies must see each of them; all others need only the sum.
        if latency_ms >= 0 and not policy.judges_latency:
            self.open[key] = run
        else:
            self.open.pop(key, None)

    def parts(self, shards: int) -> list[list[str]]:
        """The keys for which something waits, in parts of so many shards each. They wait on until they are taken."""
        by_shard: dict[int, list[str]] = {}
        for key in self._waiting:
            by_shard.setdefault(self._commands.keys.shard(key), []).append(key)
        groups = list(by_shard.values())
        return [[key for group in groups[at : at + shards] for key in group] for at in range(0, len(groups), shards)]

    def take(self, key: str) -> list[Command]:
        """What waits for one key, to go before a failure of it."""
        self.open.pop(key, None)
        return [self._command(key, run) for run in self._waiting.pop(key, ())]

    def clear(self) -> None:
        self._waiting, self.open = {}, {}

    def _command(self, key: str, run: Run) -> Command:
        return self._commands.successes(key, run.policy, run.generation, run.times, run.latency_ms)


class Run:
    """Successes in a row that carry the same policy and generation; untimed ones have a latency below 0."""

    __slots__ = ("generation", "latency_ms", "policy", "times")

    def __init__(self, policy: Policy, generation: int, latency_ms: float) -> None:
        self.policy = policy
        self.generation = generation
        self.times = 1
        self.latency_ms = latency_ms

    def joins_untimed(self, policy: Policy, generation: int) -> bool:
        same = self.policy is policy and self.generation == generation
        return same and self.latency_ms < 0 and not policy.judges_latency
