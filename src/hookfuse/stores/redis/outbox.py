"""Successes of healthy calls, waiting to be told to the store a few milliseconds later, in one call per shard."""

from __future__ import annotations

from collections.abc import Iterator

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

    def take(self, key: str) -> list[Command]:
        """What waits for one key, to go before a failure of it."""
        self.open.pop(key, None)
        return [self._command(key, run) for run in self._waiting.pop(key, ())]

    def take_all(self) -> list[Command]:
        waiting, self._waiting, self.open = self._waiting, {}, {}
        return list(self._all(waiting))

    def _all(self, waiting: dict[str, list[Run]]) -> Iterator[Command]:
        for key, runs in waiting.items():
            for run in runs:
                yield self._command(key, run)

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
