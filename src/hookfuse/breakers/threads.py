"""Breakers for threads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal, ParamSpec, Protocol, Self, TypeVar

from hookfuse.breakers.face import Face, KeyOf, PolicyFor, check_choice, check_protect, check_store, check_tally
from hookfuse.breakers.guard import Guard
from hookfuse.breakers.outage import OutageChoice
from hookfuse.breakers.safe import SafeSession
from hookfuse.core.admission import Admission
from hookfuse.core.bounds import Duration
from hookfuse.core.keys import check_key
from hookfuse.core.outcome import Classify, Outcome, classify_exception
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.local import MemoryStore
from hookfuse.ports import BreakerSession, BreakerStore, Consistency

P = ParamSpec("P")
R = TypeVar("R")


class Protector(Protocol):
    """A decorator that keeps the function's type."""

    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...


class Breakers(Face[BreakerSession, Transition | None]):
    """Circuit breakers by key, for threads. `Breakers()` keeps them in this process."""

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
        session = store.session(check_choice("consistency", Consistency, consistency))
        # This process's own memory cannot be out of reach.
        safe = session if isinstance(store, MemoryStore) else SafeSession(session, choice)
        super().__init__(safe, policy, policy_for, classify)

    def guard(self, key: str, *, classify: Classify | None = None) -> Guard:
        """Guard a block. No exception: OK; an Exception: what `classify` says; a cancel: given back."""
        return Guard(self, key, classify)

    def protect(
        self,
        *,
        key: str | KeyOf,
        fallback: Callable[..., Any] | None = None,
        classify: Classify | None = None,
    ) -> Protector:
        """Guard every call of a function. `key` is a key, or a function of the call's arguments.

        A refused call raises `BreakerOpen`, or returns what `fallback` makes of the same arguments.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            fixed, key_of = check_protect(key, fallback, classify, function, asynchronous=False)
            session, default, policy_for = self._session, self._default, self._policy_for
            # Bound once: looking them up per call is a tenth of what a healthy call costs.
            healthy, timer, succeeded = session.healthy, session.timer, session.succeeded

            @functools.wraps(function)
            def protected(*args: P.args, **kwargs: P.kwargs) -> R:
                name = fixed or key_of(*args, **kwargs)
                generation = healthy(name)
                policy = default if policy_for is None else self.policy(name)
                if generation is None:
                    refusal = session.refusal(check_key(name), policy)
                    if refusal is None:
                        admission = session.admit(name, policy)
                        if admission.allowed:
                            call = Guard(self, name, classify)
                            call.begin_with(admission)
                            return call.run(function, *args, **kwargs)
                        refusal = admission.refusal()
                    if fallback is None:
                        try:
                            raise refusal
                        finally:
                            # Its traceback knows this frame; knowing it back would be a cycle.
                            del refusal
                    instead: R = fallback(*args, **kwargs)
                    return instead
                started = timer()
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:
                    call = Guard(self, name, classify)
                    call.begin(policy, generation, started)
                    call.end(error)
                    raise
                succeeded(name, policy, generation, started)
                return result

            return protected

        return decorate

    def admit(self, key: str) -> Admission:
        """May I call? Settle what is allowed with `record` or `release`, once."""
        check_key(key)
        return self._session.admit(key, self.policy(key))

    def record(
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
        return self._session.record(admission, outcome, seconds, error)

    def release(self, admission: Admission) -> None:
        """Nothing happened: a probe's slot is free at once."""
        if self._give_back(admission):
            self._session.release(admission)

    def inspect(self, key: str) -> Snapshot:
        """The breaker as it is now; closed for a key that nobody knows."""
        return self._session.inspect(check_key(key), self.policy(key))

    def unhealthy(self) -> Iterator[Snapshot]:
        """Every breaker that is not plainly closed."""
        return self._session.unhealthy(self.policy)

    def evaluate(self, key: str, tally: Counts | None = None) -> tuple[Transition, ...]:
        """Judge a sample, for policies with evaluate="sampled"; without a tally, the breaker's own counts."""
        return self._session.evaluate(check_key(key), self.policy(key), check_tally(tally))

    def catch_up(self) -> None:
        """Wait until this process has heard of all that has happened so far, and told its own successes.

        Afterwards observers have been told, and answers know what others did before. No call needs this; a test does,
        or a tool that looks. Raises `StoreUnavailable` if the store is away.
        """
        self._session.catch_up()

    def close(self) -> None:
        """Flush what is buffered and stop what runs in the background."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _force(self, key: str, order: Order, reason: str, until: float | None, actor: str) -> Transition | None:
        policy = self._check_order(key, reason, until, actor)
        return self._session.force(key, policy, order, reason=reason, until=until, actor=actor)
