"""The verbs of a session, once for both faces.

Each verb is a generator: it yields the commands that it needs run, gets their replies, and returns its answer. A face
only carries the commands to Redis and the replies back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from hookfuse.core.admission import Admission
from hookfuse.core.bounds import past
from hookfuse.core.outcome import Kind, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order, Snapshot, Transition, snapshot
from hookfuse.core.window import Counts
from hookfuse.errors import StoreError
from hookfuse.stores.redis.commands import Call, Command, Commands
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.mirror import Mirror
from hookfuse.stores.redis.outbox import Outbox
from hookfuse.stores.redis.wire import Reply, read_admission, read_breaker, read_event, read_news, read_reply
from hookfuse.telemetry import Announcer

T = TypeVar("T")
Verb: TypeAlias = Generator[Sequence[Command], Sequence[Reply], T]


class Verbs:
    """What a session knows and how it decides what to ask. `strict` asks the store every time."""

    def __init__(self, keys: Keys, *, strict: bool, server_clock: Callable[[], float] | None = None) -> None:
        self.keys = keys
        self.strict = strict
        self.commands = Commands(keys)
        self.mirror = Mirror(keys, server_clock=server_clock)
        self.outbox = Outbox(self.commands)
        self.announcer = Announcer()
        self.timer = time.perf_counter
        self.settled: list[tuple[int, int]] = []
        """The place in each stream up to which everything is applied and told."""
        self._told: dict[int, int] = {}

    def admit(self, key: str, policy: Policy) -> Verb[Admission]:
        if not self.strict:
            known = self.mirror.answer(key, policy)
            if known is not None:
                return known
        command = self.commands.admit(key, policy)
        (reply,) = yield [command]
        self.learn(reply)
        admission = read_admission(key, policy, str(command.args[1]), reply.answer)
        if not self.strict:
            # Carry no more than this process has applied: the answer may know of transitions that it has not seen.
            admission.generation = admission.generation if admission.probe else self.mirror.generation(key)
        return admission

    def record(
        self,
        admission: Admission,
        outcome: Outcome,
        latency: float | None,
        error: BaseException | str | None,
        waiting: Sequence[Command],
    ) -> Verb[Transition | None]:
        """`waiting` are the successes of the same key that were buffered before."""
        if outcome.kind is Kind.IGNORED and admission.token is None and not waiting:
            return None
        *_, reply = yield [*waiting, self.commands.record(admission, outcome, latency, error)]
        self.learn(reply)
        return reply.transitions[-1] if reply.transitions else None

    def release(self, admission: Admission) -> Verb[None]:
        if admission.token is not None:
            yield [self.commands.release(admission)]

    def force(
        self, key: str, policy: Policy, order: Order, reason: str, until: float | None, actor: str
    ) -> Verb[Transition | None]:
        (reply,) = yield [self.commands.force(key, policy, order, reason, until, actor)]
        self.learn(reply)
        if reply.answer:
            raise past(until, int(reply.answer[0]))
        return reply.transitions[-1] if reply.transitions else None

    def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> Verb[tuple[Transition, ...]]:
        (reply,) = yield [self.commands.evaluate(key, policy, tally)]
        self.learn(reply)
        return reply.transitions

    def read_snapshot(self, key: str, policy: Policy, reply: Sequence[Any]) -> Snapshot:
        now_ms = int(reply[0])
        return snapshot(read_breaker(key, reply[1], now_ms, policy), policy, now_ms)

    def ask_names(self) -> list[tuple[Any, ...]]:
        """The commands that read which breakers are listed."""
        return [("HKEYS", self.keys.index(shard)) for shard in range(self.keys.shards)]

    def pages(self, names: Sequence[Sequence[bytes]]) -> Iterator[tuple[Call, list[str]]]:
        return self.commands.pages(name.decode() for shard in names for name in shard)

    def read_page(
        self, names: Sequence[str], reply: Sequence[Any], policy_for: Callable[[str], Policy]
    ) -> Iterator[Snapshot]:
        """The breakers of a page that are not plainly closed."""
        now_ms, *hashes = reply
        for name, hash_ in zip(names, hashes, strict=True):
            found = self.read_snapshot(name, policy_for(name), (now_ms, hash_))
            if not found.healthy:
                yield found

    def buffers(self, admission: Admission, outcome: Outcome) -> bool:
        """Whether a report may wait: a success of an ordinary call."""
        plain = admission.token is None and outcome.kind is Kind.OK
        return plain and not self.strict

    def follow(self, shard: int, position: bytes, fields: dict[bytes, bytes]) -> None:
        """Apply an event of a stream, and queue its transition for the observers."""
        generation = read_place(position)[0]
        news, transition = read_event(fields, generation)
        self.mirror.follow(shard, generation, news)
        self._queue(shard, transition)

    def announce(self, shard: int, position: bytes, fields: dict[bytes, bytes]) -> None:
        """Queue the transition of an event whose effect is known already."""
        self._queue(shard, read_event(fields, read_place(position)[0])[1])

    def meet(self, shard: int, position: int) -> int:
        """The newest generation of which observers know: they hear what happens after a shard was first met."""
        return self._told.setdefault(shard, position)

    def _queue(self, shard: int, transition: Transition | None) -> None:
        if transition is not None and transition.generation > self._told.get(shard, 0):
            self._told[shard] = transition.generation
            self.announcer.queue([transition])

    def ask_tops(self) -> list[tuple[Any, ...]]:
        """The commands that read the newest entry of each stream."""
        streams = (self.keys.stream(shard) for shard in range(self.keys.shards))
        return [("XREVRANGE", stream, "+", "-", "COUNT", 1) for stream in streams]

    def has_reached(self, tops: Sequence[Any]) -> bool:
        """Whether everything is applied and told up to these newest entries of the streams."""
        wanted = [read_place(top[0][0]) if top else (0, 0) for top in tops]
        return self.mirror.fresh and all(have >= want for have, want in zip(self.settled, wanted, strict=True))

    def load(self, positions: Mapping[int, int], entries: Mapping[str, bytes]) -> None:
        """Fill these shards of the mirror from positions and the indexes' entries, which were read after them."""
        self.mirror.load(positions, [read_news(key, 0, text) for key, text in entries.items()])

    def arrived(self, call: Call, result: Sequence[Any] | StoreError) -> None:
        """Learn from the replies to buffered successes. Those that did not arrive are lost, and never sent again."""
        if isinstance(result, StoreError):
            self.mirror.distrust({self.keys.shard(command.key) for command in call.commands})
        else:
            self.learn_all(call, result)

    def learn_all(self, call: Call, result: Sequence[Any]) -> list[Reply]:
        """The replies to a batch, learned before anyone goes on."""
        replies = [read_reply(command.key, reply) for command, reply in zip(call.commands, result, strict=True)]
        for reply in replies:
            self.learn(reply)
        return replies

    def learn(self, reply: Reply) -> None:
        if reply.news is not None:
            self.mirror.learn(reply.news)


def read_place(place: bytes) -> tuple[int, int]:
    """The id of a stream's entry: a generation, and a number that tells holds after it apart."""
    generation, _, number = place.partition(b"-")
    return int(generation), int(number)
