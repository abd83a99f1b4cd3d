"""Successes of healthy calls, waiting to be told to the store a few milliseconds later, in one call per shard."""

from __future__ import annotations

from collections.abc import Iterator

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
        # A rule about latencies must see each of them; all others need only the sum. Untimed ones are negative, and
        # so is theirs.
        if (
            last.policy is policy
            and last.generation == generation
            and (last.latency_ms >= 0) is (latency_ms >= 0)
            and not policy.judges_latency
        ):
            last.times += 1
            last.latency_ms += latency_ms
        else:
            runs.append(_Run(policy, generation, latency_ms))

    def take(self, key: str) -> list[Command]:
        """What waits for one key, to go before a failure of it."""
        return [self._command(key, run) for run in self._waiting.pop(key, ())]

    def take_all(self) -> list[Command]:
        waiting, self._waiting = self._waiting, {}
        return list(self._all(waiting))

    def _all(self, waiting: dict[str, list[_Run]]) -> Iterator[Command]:
        for key, runs in waiting.items():
            for run in runs:
                yield self._command(key, run)

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
