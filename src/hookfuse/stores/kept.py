"""Breakers of this process that outlive it: in memory, with a table behind them.

What changes a state is written before the verb returns, so before its delivery is settled, and in one transaction with
the transition that people hear of. Counts follow within a second. A success costs no write of its own, and nobody waits
for the disk unless a breaker changed.

After a crash everything is as it was, but for the counts of the last second and the leases of probes: whoever held
them is gone, so the next caller may probe at once.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple, Protocol

from hookfuse.core.admission import Admission
from hookfuse.core.machine import Step
from hookfuse.core.outcome import Failure, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.sample import Judgement, Sample
from hookfuse.core.state import Breaker, Order, Override, State, Transition
from hookfuse.core.window import Counts, Window
from hookfuse.errors import StoreError
from hookfuse.local import MemorySession, MemoryStore
from hookfuse.ports import AsyncBreakerSession, Clock, Consistency

_log = logging.getLogger("hookfuse")

_PAUSE = 0.5
_MOST_AT_ONCE = 500
_FORGET_EVERY = 600.0

_PLAIN = (
    "generation",
    "changed_ms",
    "streak",
    "trips",
    "opened_ms",
    "probe_ms",
    "probe_successes",
    "override_until_ms",
    "override_reason",
    "hold_ms",
    "reason",
    "total_ok",
    "total_failed",
    "total_slow",
    "expires_ms",
    "kept_ms",
    "plain",
)
"""What is kept of a breaker as it is. Its leases are not, nor what the machine derives for the hot path."""


class Row(NamedTuple):
    key: str
    state: str
    override: str
    generation: int
    until_ms: int
    """When it may be forgotten."""
    data: str


class Kept(NamedTuple):
    """All that a table holds: the newest generation, and the breakers."""

    last: int
    rows: tuple[Row, ...]


class Table(Protocol):
    """Where breakers are kept."""

    async def kept_breakers(self) -> Kept: ...

    async def keep_breakers(self, rows: Sequence[Row], last: int, made: Sequence[Transition]) -> None:
        """Write breakers, the newest generation, and the transitions that led there, all or nothing."""
        ...

    async def forget_breakers(self) -> None:
        """Drop those whose time is over."""
        ...


class KeptBreakers(MemoryStore):
    """A memory store with a table behind it, for the event loop that loads it."""

    def __init__(self, table: Table, *, clock: Clock | None = None) -> None:
        super().__init__(clock=clock)
        self._table = table
        self._changed: set[str] = set()
        self._made: list[Transition] = []
        self._noted = asyncio.Event()
        self._follower: asyncio.Task[None] | None = None

    def async_session(self, consistency: Consistency = Consistency.STRICT) -> AsyncBreakerSession:
        return _KeptSession(self)

    async def load(self) -> None:
        """Take up what the last process left, and follow with what changes from now on."""
        kept = await self._table.kept_breakers()
        self.restore(map(_breaker, kept.rows), kept.last)
        self._follower = asyncio.get_running_loop().create_task(self._follow(), name="hookfuse-keep-breakers")

    async def write(self, key: str) -> None:
        """Have this breaker on the disk when this returns."""
        await self._write((key,))

    async def flush(self) -> None:
        """Write everything that changed before; what changes meanwhile is for the next time."""
        changed = tuple(self._changed)
        for start in range(0, len(changed), _MOST_AT_ONCE):
            await self._write(changed[start : start + _MOST_AT_ONCE])

    async def end(self) -> None:
        if self._follower is not None:
            self._follower.cancel()
            await asyncio.gather(self._follower, return_exceptions=True)
            self._follower = None
        await self.flush()

    def succeeded(self, key: str, policy: Policy, generation: int, started: float) -> None:
        super().succeeded(key, policy, generation, started)
        self._note(key)

    def _keep(self, step: Step) -> None:
        super()._keep(step)
        self._made += step.made
        self._note(step.breaker.key)

    def _note(self, key: str) -> None:
        self._changed.add(key)
        self._noted.set()

    async def _write(self, keys: Collection[str]) -> None:
        rows = [_row(found) for key in keys if (found := self._breakers.get(key)) is not None]
        self._changed.difference_update(keys)
        made = [each for each in self._made if each.key in keys]
        self._made = [each for each in self._made if each.key not in keys]
        try:
            await self._table.keep_breakers(rows, self._sequence.last, made)
        except BaseException:
            self._changed.update(keys)
            self._made = [*made, *self._made]
            self._noted.set()
            raise

    async def _follow(self) -> None:
        loop = asyncio.get_running_loop()
        forgotten = loop.time()
        while True:
            await self._noted.wait()
            await asyncio.sleep(_PAUSE)
            self._noted.clear()
            try:
                await self.flush()
                if loop.time() - forgotten > _FORGET_EVERY:
                    forgotten = loop.time()
                    await self._table.forget_breakers()
            except StoreError as error:
                _log.warning("keeping breakers waits for the database: %s", error)


class _KeptSession(MemorySession):
    def __init__(self, store: KeptBreakers) -> None:
        super().__init__(store)
        self._kept = store

    async def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        made = await super().record(admission, outcome, latency, error)
        if made is not None:
            try:
                await self._kept.write(admission.key)
            except StoreError as trouble:
                # The request was made, and its outcome counts all the same; the follower tries again.
                _log.warning("a breaker could not be kept yet: %s", trouble)
        return made

    async def force(
        self, key: str, policy: Policy, order: Order, *, reason: str, until: float | None, actor: str
    ) -> Transition | None:
        made = await super().force(key, policy, order, reason=reason, until=until, actor=actor)
        if made is not None:
            await self._kept.write(key)
        return made

    async def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> tuple[Transition, ...]:
        made = await super().evaluate(key, policy, tally)
        if made:
            await self._kept.write(key)
        return made

    async def judge(self, samples: Collection[Sample], *, fence: int, floor: int) -> Judgement:
        judged = await super().judge(samples, fence=fence, floor=floor)
        if judged.transitions:
            await self._kept.flush()
        return judged

    async def close(self) -> None:
        await self._kept.end()


def _row(breaker: Breaker) -> Row:
    data: dict[str, Any] = {name: getattr(breaker, name) for name in _PLAIN}
    data["total_ok"] += breaker.window.quick_total
    data["numbers"] = dict(breaker.numbers)
    data["failures"] = breaker.failures
    data["window"] = {"width_ms": breaker.window.width_ms, "buckets": breaker.window.buckets()}
    until_ms = max(breaker.expires_ms, int(breaker.touched * 1000) + breaker.kept_ms)
    return Row(breaker.key, breaker.state, breaker.override, breaker.generation, until_ms, json.dumps(data))


def _breaker(row: Row) -> Breaker:
    data = json.loads(row.data)
    window = data["window"]
    breaker = Breaker(row.key, window["width_ms"])
    breaker.window = Window.load(window["width_ms"], [tuple(bucket) for bucket in window["buckets"]])
    breaker.state, breaker.override = State(row.state), Override(row.override)
    breaker.leases = {}
    breaker.numbers = data["numbers"]
    breaker.failures = tuple(Failure(*each) for each in data["failures"])
    for name in _PLAIN:
        setattr(breaker, name, data[name])
    breaker.expires_ms = row.until_ms
    return breaker
