"""Breakers for asyncio."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from typing import Any, Literal, ParamSpec, Protocol, Self, TypeVar

from hookfuse.breakers.face import Face, KeyOf, PolicyFor, check_choice, check_protect, check_store, check_tally
from hookfuse.breakers.guard import AsyncGuard
from hookfuse.breakers.outage import OutageChoice
from hookfuse.breakers.safe import AsyncSafeSession
from hookfuse.core.admission import Admission
from hookfuse.core.bounds import Duration
from hookfuse.core.keys import check_key
from hookfuse.core.outcome import Classify, Outcome, classify_exception
from hookfuse.core.policy import Policy
from hookfuse.core.sample import Glance, Judgement, Sample
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.local import MemoryStore
from hookfuse.ports import AsyncBreakerSession, BreakerStore, Consistency

P = ParamSpec("P")
R = TypeVar("R")


class AsyncProtector(Protocol):
    """A decorator that keeps the coroutine function's type."""

    def __call__(self, function: Callable[P, Awaitable[R]], /) -> Callable[P, Coroutine[Any, Any, R]]: ...


class AsyncBreakers(Face[AsyncBreakerSession, Awaitable[Transition | None]]):
    """Circuit breakers by key, for asyncio: the names of `Breakers` as coroutines."""

    def __init__(
        self,
        store: BreakerStore | None = None,
        *,
        policy: Policy | None = None,
        policy_for: PolicyFor | None = None,
        classify: Classify = classify_exception,
        outage: Literal["local", "allow", "deny"] = "local",
        consistency: Literal["mirror", "strict"] = "mirror",
    ) -> None:
        choice = check_choice("outage", OutageChoice, outage)
        store = check_store(store)
        session = store.async_session(check_choice("consistency", Consistency, consistency))
        # This process's own memory cannot be out of reach.
        safe = session if isinstance(store, MemoryStore) else AsyncSafeSession(session, choice)
        super().__init__(safe, policy, policy_for, classify)

    def guard(self, key: str, *, classify: Classify | None = None) -> AsyncGuard:
        """Guard a block; see `Breakers.guard`. A timeout around the block is a cancel, one inside a failure."""
        return AsyncGuard(self, key, classify)

    def protect(
        self,
        *,
        key: str | KeyOf,
        fallback: Callable[..., Any] | None = None,
        classify: Classify | None = None,
    ) -> AsyncProtector:
        """Guard every call of a coroutine function; see `Breakers.protect`. `fallback` may be one too."""

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
            fixed, key_of = check_protect(key, fallback, classify, function, asynchronous=True)
            session, default, policy_for = self._session, self._default, self._policy_for
            # Bound once, and no guard is made: a healthy call is this one coroutine, around that of the function.
            healthy, timer, succeeded = session.healthy, session.timer, session.succeeded

            @functools.wraps(function)
            async def protected(*args: P.args, **kwargs: P.kwargs) -> R:
                name = fixed or key_of(*args, **kwargs)
                generation = healthy(name)
                policy = default if policy_for is None else self.policy(name)
                if generation is None:
                    refusal = session.refusal(check_key(name), policy)
                    if refusal is None:
                        admission = await session.admit(name, policy)
                        if admission.allowed:
                            call = AsyncGuard(self, name, classify)
                            call.begin_with(admission)
                            return await call.run(function, *args, **kwargs)
                        refusal = admission.refusal()
                    if fallback is None:
                        try:
                            raise refusal
                        finally:
                            # Its traceback knows this frame; knowing it back would be a cycle.
                            del refusal
                    instead = fallback(*args, **kwargs)
                    other: R = await instead if inspect.isawaitable(instead) else instead
                    return other
                started = timer()
                try:
                    result = await function(*args, **kwargs)
                except BaseException as error:
                    call = AsyncGuard(self, name, classify)
                    call.begin(policy, generation, started)
                    await call.end(error)
                    raise
                succeeded(name, policy, generation, started)
                return result

            return protected

        return decorate

    async def admit(self, key: str) -> Admission:
        """May I call? Settle what is allowed with `record` or `release`, once."""
        check_key(key)
        return await self._session.admit(key, self.policy(key))

    def admit_at_once(self, key: str) -> Admission | None:
        """The admission, if this process knows the key to be plainly closed; None: nobody can say without `admit`."""
        generation = None if self.degraded else self._session.healthy(key)
        if generation is None:
            return None
        admission = Admission(key, self.policy(key), generation)
        admission.at_once = True
        return admission

    def count_at_once(self, admission: Admission, latency: float) -> bool:
        """Count a success that was admitted at once; False: `record` it, because it may change the breaker."""
        policy = admission.policy
        if not admission.at_once or latency * 1000 >= policy.slow_ms or self.degraded:
            return False
        admission.settle()
        session = self._session
        session.succeeded(admission.key, policy, admission.generation, session.timer() - latency)
        return True

    async def record(
        self,
        admission: Admission,
        outcome: Outcome,
        *,
        latency: Duration | None = None,
        error: BaseException | str | None = None,
    ) -> Transition | None:
        """Report the outcome of an admitted call; returns the transition that it caused, if any."""
        seconds = self._settle(admission, outcome, latency, error)
        if admission.would_deny:
            return None
        return await self._session.record(admission, outcome, seconds, error)

    async def release(self, admission: Admission) -> None:
        """Nothing happened: a probe's slot is free at once."""
        if self._give_back(admission):
            await self._session.release(admission)

    async def inspect(self, key: str) -> Snapshot:
        """The breaker as it is now; closed for a key that nobody knows."""
        return await self._session.inspect(check_key(key), self.policy(key))

    def unhealthy(self) -> AsyncIterator[Snapshot]:
        """Every breaker that is not plainly closed: `async for snapshot in breakers.unhealthy()`."""
        return self._session.unhealthy(self.policy)

    async def evaluate(self, key: str, tally: Counts | None = None) -> tuple[Transition, ...]:
        """Judge a sample, for policies with evaluate="sampled"; without a tally, the breaker's own counts."""
        return await self._session.evaluate(check_key(key), self.policy(key), check_tally(tally))

    async def judge(self, samples: Sequence[Sample], *, fence: int, floor: int = 0) -> Judgement:
        """Judge many samples, for whoever samples for the whole fleet: an older `fence` than one before is refused."""
        return await self._session.judge(samples, fence=fence, floor=floor)

    async def glance(self, keys: Collection[str]) -> Glance:
        """Many breakers as they are now."""
        return await self._session.glance(keys, self.policy)

    async def life(self) -> str:
        """Which life of the store's data this is: another one means that breakers were lost. Empty: they cannot be."""
        return await self._session.life()

    def heard(self, key: str) -> int | None:
        """The newest generation that this process has heard of, if it knows the key to be plainly closed; else None."""
        return self._session.healthy(check_key(key))

    async def catch_up(self) -> None:
        """Wait until this process has heard of all that has happened so far; see `Breakers.catch_up`."""
        await self._session.catch_up()

    async def close(self) -> None:
        """Flush what is buffered and stop what runs in the background."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _force(self, key: str, order: Order, reason: str, until: float | None, actor: str) -> Transition | None:
        policy = self._check_order(key, reason, until, actor)
        return await self._session.force(key, policy, order, reason=reason, until=until, actor=actor)
