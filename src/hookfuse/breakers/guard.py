"""A guarded block, for threads and for asyncio.

An exception knows the frames that it came through. Where such a frame knows the exception too, or a guard that does,
both would stay in memory until the garbage collector comes by, with all that the caller had at hand. So whatever is
raised or reported here is let go of.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from hookfuse.breakers.face import Face, S, check_classify, check_report
from hookfuse.core.admission import Admission
from hookfuse.core.bounds import Duration
from hookfuse.core.keys import check_key
from hookfuse.core.outcome import Classify, Outcome
from hookfuse.core.policy import Policy
from hookfuse.errors import AlreadySettled, InvalidInput, shown
from hookfuse.ports import AsyncBreakerSession, BreakerSession

P = ParamSpec("P")
R = TypeVar("R")


class Call(Generic[S]):
    """One guarded call: admitted when the block begins, settled exactly once when it ends."""

    # Defaults on the class, so that an ordinary call sets only what differs.
    _classify: Classify | None = None
    _outcome: Outcome | None = None
    _admission: Admission | None = None
    _latency: float | None
    _error: BaseException | str | None = None
    _policy: Policy
    _generation: int
    _started: float

    def __init__(self, face: Face[S, Any], key: str, classify: Classify | None) -> None:
        self._face = face
        self.key = key
        if classify is not None:
            check_classify(classify)
            self._classify = classify

    @property
    def admission(self) -> Admission:
        """The answer that let this call through."""
        if self._admission is None:
            self._admission = Admission(self.key, self._policy, self._generation)
        return self._admission

    @property
    def probe(self) -> bool:
        """Whether this call is the probe of a breaker that is not closed."""
        return self._admission is not None and self._admission.probe

    def record(
        self, outcome: Outcome, *, latency: Duration | None = None, error: BaseException | str | None = None
    ) -> Awaitable[None]:
        """Say what the call's outcome is; it is reported when the block ends.

        There is nothing to wait for, but `await call.record(...)` is fine too.
        """
        if self._outcome is not None:
            raise AlreadySettled(f"This call to {shown(self.key)} has its outcome already; record it once.")
        self._latency = check_report(outcome, latency, error)
        self._error = error
        self._outcome = outcome
        return _DONE

    def begin(self, policy: Policy, generation: int, started: float) -> None:
        self._policy = policy
        self._generation = generation
        self._started = started

    def begin_with(self, admission: Admission) -> None:
        if not admission.allowed:
            raise admission.refusal()
        self._admission = admission
        self.begin(admission.policy, admission.generation, self._face._session.timer())

    def _reported(self, error: BaseException | None) -> BaseException | str | None:
        """The error to report. It is let go of here: it knows the block's frame, and that knows this guard."""
        recorded, self._error = self._error, None
        return error if self._outcome is None else recorded

    def _verdict(self, error: BaseException | None) -> Outcome | None:
        """The outcome of the block; None: nothing happened, give the admission back."""
        admission = self.admission
        admission.settle()
        if admission.would_deny:
            return None
        outcome = self._outcome
        if outcome is None:
            self._latency = max(self._face._session.timer() - self._started, 0.0)
            if error is None:
                return Outcome.OK
            if not isinstance(error, Exception):
                return None
            outcome = (self._classify or self._face._classify)(error)
            if not isinstance(outcome, Outcome):
                raise InvalidInput(f"classify must return an Outcome, got {shown(outcome)}.")
        elif self._latency is None:
            self._latency = max(self._face._session.timer() - self._started, 0.0)
        return outcome


class Guard(Call[BreakerSession]):
    """`with breakers.guard(key) as call:`"""

    def __enter__(self) -> Self:
        face = self._face
        session = face._session
        generation = session.healthy(self.key)
        policy = face._default if face._policy_for is None else face.policy(self.key)
        if generation is None:
            refusal = session.refusal(check_key(self.key), policy)
            if refusal is not None:
                try:
                    raise refusal
                finally:
                    del refusal
            self.begin_with(session.admit(self.key, policy))
        else:
            self._policy = policy
            self._generation = generation
            self._started = session.timer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._outcome is None and self._admission is None:
            self._face._session.succeeded(self.key, self._policy, self._generation, self._started)
        else:
            self.end(error)

    def end(self, error: BaseException | None) -> None:
        session = self._face._session
        reported = self._reported(error)
        outcome: Outcome | None = None
        try:
            outcome = self._verdict(error)
        finally:
            if outcome is None:
                session.release(self.admission)
        if outcome is not None:
            session.record(self.admission, outcome, self._latency, reported)

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `function` within this guard, which has begun."""
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            self.end(error)
            raise
        self.end(None)
        return result


class AsyncGuard(Call[AsyncBreakerSession]):
    """`async with breakers.guard(key) as call:`"""

    async def __aenter__(self) -> Self:
        face = self._face
        session = face._session
        generation = session.healthy(self.key)
        policy = face._default if face._policy_for is None else face.policy(self.key)
        if generation is None:
            refusal = session.refusal(check_key(self.key), policy)
            if refusal is not None:
                try:
                    raise refusal
                finally:
                    del refusal
            self.begin_with(await session.admit(self.key, policy))
        else:
            self._policy = policy
            self._generation = generation
            self._started = session.timer()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._outcome is None and self._admission is None:
            self._face._session.succeeded(self.key, self._policy, self._generation, self._started)
        else:
            await self.end(error)

    async def end(self, error: BaseException | None) -> None:
        session = self._face._session
        reported = self._reported(error)
        outcome: Outcome | None = None
        try:
            outcome = self._verdict(error)
        finally:
            if outcome is None:
                await session.release(self.admission)
        if outcome is not None:
            await session.record(self.admission, outcome, self._latency, reported)

    async def run(self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call `function` within this guard, which has begun."""
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            await self.end(error)
            raise
        await self.end(None)
        return result


class _Done:
    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


_DONE = _Done()
