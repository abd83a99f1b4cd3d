"""Sessions that survive the loss of their store.

What is asked and what is made of the answer is written once, for both faces: each verb is a generator that yields what
the store's session returned. For threads that is the answer; for asyncio it is what will have it, and is waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar

from hookfuse.breakers.outage import Outage, OutageChoice
from hookfuse.core.admission import Admission
from hookfuse.core.outcome import OK, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Snapshot, Transition
from hookfuse.errors import BreakerOpen, StoreError
from hookfuse.ports import AsyncBreakerSession, BreakerSession
from hookfuse.telemetry import Observer

T = TypeVar("T")
Verb: TypeAlias = Generator[Any, Any, T]


class _Safe:
    """The hot path is the store's own: it answers only while it is sure."""

    def __init__(self, session: Any, choice: OutageChoice) -> None:
        self.outage = Outage(choice, session)
        self.timer: Callable[[], float] = session.timer
        self.healthy: Callable[[str], int | None] = session.healthy
        self.refusal: Callable[[str, Policy], BreakerOpen | None] = session.refusal
        self.succeeded: Callable[[str, Policy, int, float], None] = session.succeeded
        self._session = session

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        ends = (self._session.subscribe(observer), self.outage.subscribe(observer))

        def unsubscribe() -> None:
            for end in ends:
                end()

        return unsubscribe

    def _admit_at_once(self, key: str, policy: Policy) -> Admission | None:
        """As a guard does; None: the store has to be asked, also to notice that it is back."""
        generation = None if self.outage.degraded else self.healthy(key)
        if generation is None:
            return None
        admission = Admission(key, policy, generation)
        admission.at_once = True
        return admission

    def _count_at_once(self, admission: Admission, outcome: Outcome, latency: float | None) -> bool:
        """Count a success as a guard does; false: it must be recorded."""
        if not admission.at_once or outcome.kind is not OK or latency is None or self.outage.degraded:
            return False
        self.succeeded(admission.key, admission.policy, admission.generation, self.timer() - latency)
        return True

    def _admit(self, key: str, policy: Policy) -> Verb[Admission]:
        outage = self.outage
        refused = outage.refused(key, policy)
        if refused is not None:
            return refused
        leave = outage.ask(key)
        if leave is not None:
            try:
                admission: Admission = yield self._session.admit(key, policy)
            except StoreError as error:
                outage.failed(leave, key, error)
            else:
                outage.answered(leave)
                return admission
        return outage.admit(key, policy)

    def _record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Verb[Transition | None]:
        leave = None if admission.degraded else self.outage.ask(admission.key)
        if leave is not None:
            try:
                transition: Transition | None = yield self._session.record(admission, outcome, latency, error)
            except StoreError as lost:
                self.outage.failed(leave, admission.key, lost)
            else:
                self.outage.reported(leave, admission, outcome)
                return transition
        return self.outage.record(admission, outcome, latency, error)

    def _inspect(self, key: str, policy: Policy) -> Verb[Snapshot]:
        """Answered by the store or not at all; either way it is known then whether the store is there."""
        leave = self.outage.ask(key)
        try:
            found: Snapshot = yield self._session.inspect(key, policy)
        except StoreError as error:
            if leave is not None:
                self.outage.failed(leave, key, error)
            raise
        if leave is not None:
            self.outage.answered(leave)
        return found

    def _release(self, admission: Admission) -> Verb[None]:
        leave = None if admission.degraded else self.outage.ask(admission.key)
        if leave is not None:
            try:
                yield self._session.release(admission)
            except StoreError as lost:
                self.outage.failed(leave, admission.key, lost)
            else:
                self.outage.answered(leave)
        elif admission.degraded:
            self.outage.release(admission)


class SafeSession(_Safe):
    """A session that survives the loss of its store, for threads."""

    def __init__(self, session: BreakerSession, choice: OutageChoice) -> None:
        super().__init__(session, choice)
        # What a person asks for must be answered by the store, or say that it is not there.
        self.force, self.evaluate, self.unhealthy = session.force, session.evaluate, session.unhealthy
        self.catch_up, self.close = session.catch_up, session.close

    def inspect(self, key: str, policy: Policy) -> Snapshot:
        return _run(self._inspect(key, policy))

    def admit(self, key: str, policy: Policy) -> Admission:
        known = self._admit_at_once(key, policy)
        return known if known is not None else _run(self._admit(key, policy))

    def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        if self._count_at_once(admission, outcome, latency):
            return None
        return _run(self._record(admission, outcome, latency, error))

    def release(self, admission: Admission) -> None:
        _run(self._release(admission))


class AsyncSafeSession(_Safe):
    """A session that survives the loss of its store, for asyncio."""

    def __init__(self, session: AsyncBreakerSession, choice: OutageChoice) -> None:
        super().__init__(session, choice)
        self.judge, self.glance, self.life = session.judge, session.glance, session.life
        self.force, self.evaluate, self.unhealthy = session.force, session.evaluate, session.unhealthy
        self.catch_up, self.close = session.catch_up, session.close

    async def inspect(self, key: str, policy: Policy) -> Snapshot:
        return await _run_async(self._inspect(key, policy))

    async def admit(self, key: str, policy: Policy) -> Admission:
        known = self._admit_at_once(key, policy)
        return known if known is not None else await _run_async(self._admit(key, policy))

    async def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        if self._count_at_once(admission, outcome, latency):
            return None
        return await _run_async(self._record(admission, outcome, latency, error))

    async def release(self, admission: Admission) -> None:
        await _run_async(self._release(admission))


def _run(verb: Verb[T]) -> T:
    """Nothing to wait for: what a verb yields is the answer."""
    try:
        answer = next(verb)
        while True:
            answer = verb.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result


async def _run_async(verb: Verb[T]) -> T:
    try:
        coming = next(verb)
        while True:
            try:
                answer = await coming
            except BaseException as error:
                coming = verb.throw(error)
            else:
                coming = verb.send(answer)
    except StopIteration as done:
        result: T = done.value
        return result
