"""Breakers of this process: the machine run under one lock.

This is the memory store, and what every face falls back on; it lives below the other stores because the
breakers need it without naming any of them. Users import it as `hookfuse.stores.memory.MemoryStore`.

The lock is held for one step of the machine (a few microseconds), never during a caller's own work or an
observer's. Nothing runs in the background: keys that went quiet are dropped by the calls that come later,
a few per call, and one that is still there past its time is treated as gone.
"""

from __future__ import annotations

import heapq
import itertools
import os
import random
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator

from hookfuse.core.admission import Admission, Denial
from hookfuse.core.bounds import milliseconds, past
from hookfuse.core.keys import check_key
from hookfuse.core.machine import Step
from hookfuse.core.outcome import FAILURE, IGNORED, Failure, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.sample import Glance, Judgement, Sample
from hookfuse.core.state import OPEN, Breaker, Order, Sequence, Snapshot, Transition, snapshot
from hookfuse.core.window import Counts
from hookfuse.errors import BreakerOpen
from hookfuse.ports import AsyncBreakerSession, BreakerSession, Clock, Consistency
from hookfuse.telemetry import Announcer, Observer

_DROPPED_PER_CALL = 16
_LOOK_AGAIN_MS = 600_000
_REFUSED = Denial.OPEN


class SystemClock:
    """The machine's clock."""

    now = staticmethod(time.time)


class MemoryStore:
    """Breakers in this process's memory, for threads and for asyncio."""

    def __init__(self, *, clock: Clock | None = None) -> None:
        self.timer: Callable[[], float] = (clock or SystemClock()).now
        self._breakers: dict[str, Breaker] = {}
        self._unhealthy: dict[str, Breaker] = {}
        self._expiries: list[tuple[int, str]] = []
        self._sequence = Sequence()
        self._fence = 0
        self._tokens = itertools.count(1)
        self._announcer = Announcer()
        self._renew_lock()
        _stores.add(self)

    def session(self, consistency: Consistency = Consistency.STRICT) -> BreakerSession:
        return self

    def async_session(self, consistency: Consistency = Consistency.STRICT) -> AsyncBreakerSession:
        return MemorySession(self)

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        return self._announcer.subscribe(observer)

    def catch_up(self) -> None:
        """There is no delay to wait for."""

    def close(self) -> None:
        """Nothing to flush; the store stays usable by others."""

    def __len__(self) -> int:
        """How many keys are in memory."""
        return len(self._breakers)

    def healthy(self, key: str) -> int | None:
        # The generation is read first: a trip in between then makes the call's report older, as it should be.
        generation = self._sequence.last
        try:
            breaker = self._breakers.get(key)
        except TypeError:
            check_key(key)
            raise
        if breaker is None:
            check_key(key)
            return generation
        return generation if breaker.plain else None

    def refusal(self, key: str, policy: Policy) -> BreakerOpen | None:
        breaker = self._breakers.get(key)
        if breaker is None or breaker.shut is None or not policy.enforced:
            return None
        since, until, why = breaker.shut
        now = self.timer()
        return BreakerOpen(key, OPEN, until, _REFUSED, why, until - now) if since <= now < until else None

    def succeeded(self, key: str, policy: Policy, generation: int, started: float) -> None:
        now = self.timer()
        self._acquire()
        try:
            breaker = self._breakers.get(key)
            if breaker is not None and breaker.quick is not None and generation >= breaker.generation:
                quick_policy, since, until = breaker.quick
                if quick_policy is policy and since <= now < until and started <= now:
                    # What a step would do, less what it need not look at: most calls of most programs end here.
                    window = breaker.window
                    window.quick += 1
                    window.latency_ms += (now - started) * 1000
                    breaker.touched = now
                    return
        finally:
            self._release()
        self.record(Admission(key, policy, generation), Outcome.OK, max(now - started, 0.0), None)

    def admit(self, key: str, policy: Policy) -> Admission:
        generation = self.healthy(key)
        if generation is not None:
            return Admission(key, policy, generation)
        with self._lock:
            now_ms = self._now_ms()
            breaker = self._find(key, now_ms)
            if breaker is None:
                return Admission(key, policy, self._sequence.last)
            step = Step(breaker, policy, now_ms, self._sequence)
            admission = step.admit(str(next(self._tokens)))
            if admission.probe or step.made:
                self._keep(step)
        self._announcer.deliver()
        return admission

    def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        key, policy = admission.key, admission.policy
        with self._lock:
            now_ms = self._now_ms()
            breaker = self._find(key, now_ms)
            if breaker is None:
                if outcome.kind is IGNORED:
                    return None
                breaker = Breaker(key, policy.bucket_ms)
            step = Step(breaker, policy, now_ms, self._sequence)
            step.record(
                outcome,
                generation=admission.generation,
                token=admission.token,
                latency_ms=None if latency is None else milliseconds(latency),
                failure=Failure.of(error, now_ms / 1000) if outcome.kind is FAILURE else None,
                draw=random.random(),
            )
            self._keep(step)
        self._announcer.deliver()
        return step.made[-1] if step.made else None

    def release(self, admission: Admission) -> None:
        if admission.token is not None:
            with self._lock:
                breaker = self._breakers.get(admission.key)
                if breaker is not None:
                    breaker.leases.pop(admission.token, None)

    def force(
        self, key: str, policy: Policy, order: Order, *, reason: str, until: float | None, actor: str
    ) -> Transition | None:
        with self._lock:
            now_ms = self._now_ms()
            breaker = self._find(key, now_ms) or Breaker(key, policy.bucket_ms)
            step = Step(breaker, policy, now_ms, self._sequence)
            until_ms = None if until is None else milliseconds(until)
            obeyed = step.force(order, reason=reason, until_ms=until_ms, actor=actor)
            if step.made:
                self._keep(step)
        self._announcer.deliver()
        if not obeyed:
            raise past(until, now_ms)
        return step.made[-1] if step.made else None

    def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> tuple[Transition, ...]:
        with self._lock:
            now_ms = self._now_ms()
            breaker = self._find(key, now_ms) or Breaker(key, policy.bucket_ms)
            step = Step(breaker, policy, now_ms, self._sequence)
            step.evaluate(tally, draw=random.random())
            if step.made:
                self._keep(step)
        self._announcer.deliver()
        return tuple(step.made)

    def judge(self, samples: Iterable[Sample], fence: int, floor: int) -> Judgement:
        made: list[Transition] = []
        with self._lock:
            if fence < self._fence:
                return Judgement(generation=self._sequence.last, replaced=True)
            self._fence = fence
            self._sequence.last = max(self._sequence.last, floor)
            now_ms = self._now_ms()
            for key, policy, tally, generation in samples:
                breaker = self._find(key, now_ms) or Breaker(key, policy.bucket_ms)
                step = Step(breaker, policy, now_ms, self._sequence)
                step.evaluate(tally, generation=generation, draw=random.random())
                if step.made:
                    self._keep(step)
                    made += step.made
        self._announcer.deliver()
        return Judgement(tuple(made), self._sequence.last)

    def knows(self, key: str) -> bool:
        return key in self._breakers

    def adopt(self, refusal: Admission) -> None:
        """Begin a breaker where a refusal of another store left off."""
        with self._lock:
            now_ms = self._now_ms()
            step = Step(Breaker(refusal.key, refusal.policy.bucket_ms), refusal.policy, now_ms, self._sequence)
            step.adopt(refusal)
            self._keep(step)

    def restore(self, breakers: Iterable[Breaker], last: int) -> None:
        """Begin with what another process left: its breakers, and the newest generation that it gave out."""
        with self._lock:
            self._sequence.last = max(self._sequence.last, last)
            now_ms = self._now_ms()
            for breaker in breakers:
                if not breaker.expired(now_ms):
                    self._place(breaker, now_ms)

    def forget(self, key: str) -> None:
        """Drop a breaker; its place in the order of expiries finds nothing and goes too."""
        with self._lock:
            self._breakers.pop(key, None)
            self._unhealthy.pop(key, None)

    def inspect(self, key: str, policy: Policy) -> Snapshot:
        with self._lock:
            now_ms = self._now_ms()
            breaker = self._find(key, now_ms) or Breaker(key, policy.bucket_ms)
            return snapshot(breaker, policy, now_ms)

    def unhealthy(self, policy_for: Callable[[str], Policy]) -> Iterator[Snapshot]:
        for key in list(self._unhealthy):
            found = self.inspect(key, policy_for(key))
            if not found.healthy:
                yield found

    def _now_ms(self) -> int:
        # Read under the lock, so that the machine never sees time run backwards between two threads.
        return milliseconds(self.timer())

    def _find(self, key: str, now_ms: int) -> Breaker | None:
        if self._expiries and self._expiries[0][0] <= now_ms:
            self._drop_some(now_ms)
        breaker = self._breakers.get(key)
        # One past its time counts as gone; its entry stays for its successor, or until it is looked at.
        return None if breaker is None or breaker.expired(now_ms) else breaker

    def _drop_some(self, now_ms: int) -> None:
        expiries = self._expiries
        for _ in range(_DROPPED_PER_CALL):
            if not expiries or expiries[0][0] > now_ms:
                break
            self._look_at(heapq.heappop(expiries)[1], now_ms)

    def _look_at(self, key: str, now_ms: int) -> None:
        breaker = self._breakers.get(key)
        if breaker is None:
            return
        if breaker.expired(now_ms):
            del self._breakers[key]
            self._unhealthy.pop(key, None)
        else:
            # An expiry moves with every call, and may move closer, so a far one is looked at again before.
            heapq.heappush(self._expiries, (min(breaker.expires_ms, now_ms + _LOOK_AGAIN_MS), key))

    def _keep(self, step: Step) -> None:
        self._place(step.breaker, step.now_ms)
        if step.made:
            self._announcer.queue(step.made)

    def _place(self, breaker: Breaker, now_ms: int) -> None:
        key = breaker.key
        if key not in self._breakers:
            heapq.heappush(self._expiries, (min(breaker.expires_ms, now_ms + _LOOK_AGAIN_MS), key))
        self._breakers[key] = breaker
        if not breaker.plain:
            self._unhealthy[key] = breaker
        elif self._unhealthy:
            self._unhealthy.pop(key, None)

    def _before_fork(self) -> None:
        self._lock.acquire()

    def _after_fork_in_parent(self) -> None:
        self._lock.release()

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()
        self._acquire, self._release = self._lock.acquire, self._lock.release

    def _after_fork_in_child(self) -> None:
        self._renew_lock()
        self._announcer.forget()


class MemorySession:
    """The memory store for asyncio: its steps take microseconds, so they run on the event loop's thread."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.timer = store.timer
        self.healthy = store.healthy
        self.refusal = store.refusal
        self.succeeded = store.succeeded
        self.subscribe = store.subscribe

    async def admit(self, key: str, policy: Policy) -> Admission:
        return self._store.admit(key, policy)

    async def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        return self._store.record(admission, outcome, latency, error)

    async def release(self, admission: Admission) -> None:
        self._store.release(admission)

    async def force(
        self, key: str, policy: Policy, order: Order, *, reason: str, until: float | None, actor: str
    ) -> Transition | None:
        return self._store.force(key, policy, order, reason=reason, until=until, actor=actor)

    async def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> tuple[Transition, ...]:
        return self._store.evaluate(key, policy, tally)

    async def judge(self, samples: Collection[Sample], *, fence: int, floor: int) -> Judgement:
        return self._store.judge(samples, fence, floor)

    async def glance(self, keys: Collection[str], policy_for: Callable[[str], Policy]) -> Glance:
        found = tuple(self._store.inspect(key, policy_for(key)) for key in keys)
        return Glance(self._store.timer(), found)

    async def life(self) -> str:
        return ""

    async def inspect(self, key: str, policy: Policy) -> Snapshot:
        return self._store.inspect(key, policy)

    async def unhealthy(self, policy_for: Callable[[str], Policy]) -> AsyncIterator[Snapshot]:
        for found in self._store.unhealthy(policy_for):
            yield found

    async def catch_up(self) -> None:
        self._store.catch_up()

    async def close(self) -> None:
        self._store.close()


_stores: weakref.WeakSet[MemoryStore] = weakref.WeakSet()


def _at_fork(act: Callable[[MemoryStore], None]) -> Callable[[], None]:
    def act_on_all() -> None:
        for store in list(_stores):
            act(store)

    return act_on_all


# A fork copies memory as it is: with every lock held by the forking thread, no breaker is half changed.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_at_fork(MemoryStore._before_fork),
        after_in_parent=_at_fork(MemoryStore._after_fork_in_parent),
        after_in_child=_at_fork(MemoryStore._after_fork_in_child),
    )
