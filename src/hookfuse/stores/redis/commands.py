"""The verbs as values: what to run, for which key. Both faces run them; neither builds or reads them itself."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from hookfuse.core.admission import Admission
from hookfuse.core.bounds import milliseconds
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.sample import Sample
from hookfuse.core.state import Order
from hookfuse.core.window import Counts
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.wire import Arg, PolicyTexts, report_args

_KEYS_PER_PAGE = 200
"""A script holds up its server for as long as it runs."""


_compact = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


class Command(NamedTuple):
    """One verb for one key; `args` are those of its script, and of its place in a batch."""

    verb: str
    key: str
    args: Sequence[Arg]


class Call(NamedTuple):
    """One run of one script."""

    script: str
    keys: Sequence[str]
    args: Sequence[Arg]
    commands: Sequence[Command] = ()


class Commands:
    """Makes commands, and the calls that run them."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._policies = PolicyTexts()

    def admit(self, key: str, policy: Policy) -> Command:
        token = os.urandom(16).hex()
        return Command("admit", key, (self._policies.of(policy), token))

    def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Command:
        policy = self._policies.of(admission.policy)
        report = report_args(admission, outcome, latency, error, random.random())
        return Command("record", admission.key, (policy, *report))

    def successes(self, key: str, policy: Policy, generation: int, times: int, latency_ms: float) -> Command:
        total = -1 if latency_ms < 0 else int(latency_ms + 0.5)
        return Command("oks", key, (self._policies.of(policy), generation, times, total, random.random()))

    def release(self, admission: Admission) -> Command:
        return Command("release", admission.key, (admission.token or "",))

    def force(self, key: str, policy: Policy, order: Order, reason: str, until: float | None, actor: str) -> Command:
        until_ms = -1 if until is None else milliseconds(until)
        return Command("force", key, (self._policies.of(policy), order.value, reason or order.value, until_ms, actor))

    def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> Command:
        return Command("evaluate", key, (self._policies.of(policy), random.random(), *(tally or ())))

    def judgements(self, samples: Iterable[Sample], fence: int, floor: int) -> Iterator[Call]:
        """The calls that judge samples: one at least for each shard, so that all of them know the fence."""
        by_shard: dict[int, list[Sample]] = {shard: [] for shard in range(self.keys.shards)}
        for sample in samples:
            by_shard[self.keys.shard(sample.key)].append(sample)
        for shard, group in by_shard.items():
            for at in range(0, max(len(group), 1), _KEYS_PER_PAGE):
                yield self._judgement(shard, group[at : at + _KEYS_PER_PAGE], fence, floor)

    def _judgement(self, shard: int, samples: Sequence[Sample], fence: int, floor: int) -> Call:
        keys = [*self.keys.head(shard), self.keys.fence(shard)]
        args: list[Arg] = [fence, floor]
        commands = []
        for key, policy, tally, generation in samples:
            keys.append(self.keys.breaker(shard, key))
            told = (self._policies.of(policy), random.random(), generation, *tally)
            args += (len(keys), *told)
            commands.append(Command("judge", key, told))
        return Call("judge", keys, args, commands)

    def alone(self, command: Command) -> Call:
        """A command as a call of its own."""
        shard = self.keys.shard(command.key)
        keys = [*self.keys.head(shard), self.keys.breaker(shard, command.key)]
        return Call(command.verb, keys, command.args, (command,))

    def inspect(self, key: str) -> Call:
        return Call("inspect", [self.keys.breaker(self.keys.shard(key), key)], ())

    def pages(self, names: Iterable[str]) -> Iterator[tuple[Call, list[str]]]:
        """The calls that read many breakers, and which each of them reads."""
        for shard, page in self._paged(names):
            yield Call("list", [self.keys.breaker(shard, name) for name in page], ()), page

    def prunes(self, names: Iterable[str]) -> Iterator[Call]:
        """The calls that take out of the indexes what is past its time."""
        for shard, page in self._paged(names):
            yield Call("prune", [self.keys.index(shard), *(self.keys.breaker(shard, name) for name in page)], ())

    def _paged(self, names: Iterable[str]) -> Iterator[tuple[int, list[str]]]:
        by_shard: dict[int, list[str]] = {}
        for name in names:
            by_shard.setdefault(self.keys.shard(name), []).append(name)
        for shard, group in by_shard.items():
            for at in range(0, len(group), _KEYS_PER_PAGE):
                yield shard, group[at : at + _KEYS_PER_PAGE]

    def pulse(self) -> Call:
        return Call("pulse", [self.keys.meta], ())

    def batches(self, commands: Iterable[Command]) -> Iterator[Call]:
        """As few calls as possible: one for each shard, its commands in their order."""
        by_shard: dict[int, list[Command]] = {}
        for command in commands:
            by_shard.setdefault(self.keys.shard(command.key), []).append(command)
        for shard, group in by_shard.items():
            places: dict[str, int] = {}
            policies: dict[Arg, int] = {}
            words: list[Arg] = []
            for verb, key, args in group:
                words += (verb, places.setdefault(key, len(places) + 4))
                if verb == "release":
                    words += args
                else:
                    words.append(policies.setdefault(args[0], len(policies) + 2))
                    words += args[1:]
            keys = [*self.keys.head(shard), *(self.keys.breaker(shard, key) for key in places)]
            # As one argument: the driver takes longer to pack each one than the script to read it.
            yield Call("batch", keys, [_compact(words), *policies], group)
