"""What both faces share: the settings, the operator's verbs, and the checks that answer misuse with a sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from datetime import timedelta
from enum import StrEnum
from typing import Any, Generic, Self, TypeAlias, TypeVar

from hookfuse.core.admission import Admission
from hookfuse.core.bounds import Duration, finite
from hookfuse.core.keys import check_key
from hookfuse.core.outcome import Classify, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order
from hookfuse.core.window import Counts
from hookfuse.errors import InvalidInput, shown
from hookfuse.local import MemoryStore
from hookfuse.ports import BreakerStore, HotPath
from hookfuse.telemetry import Observer

S = TypeVar("S", bound=HotPath)
T = TypeVar("T")
C = TypeVar("C", bound=StrEnum)

PolicyFor: TypeAlias = Callable[[str], Policy | None]
KeyOf: TypeAlias = Callable[..., str]

_LONGEST_TEXT = 500
_LONGEST_LATENCY = 366 * 86_400.0
_LAST_INSTANT = 253_402_300_799  # the last second of the year 9999
_MOST = 1 << 52


class Face(Generic[S, T]):
    """What both faces share: the settings, and the checks that answer misuse with a sentence."""

    def __init__(
        self,
        session: S,
        policy: Policy | None,
        policy_for: PolicyFor | None,
        classify: Classify,
    ) -> None:
        if policy is not None and not isinstance(policy, Policy):
            hint = "; call the profile to get one" if callable(policy) else ""
            raise InvalidInput(f"policy must be a Policy, got {shown(policy)}{hint}.")
        if policy_for is not None and not callable(policy_for):
            raise InvalidInput(f"policy_for must be a function of the key, got {shown(policy_for)}.")
        check_classify(classify)
        self._session = session
        self._outage: Any = getattr(session, "outage", None)
        self._default = policy or Policy()
        self._policy_for = policy_for
        self._classify = classify

    def policy(self, key: str) -> Policy:
        """The policy that a call with this key carries."""
        if self._policy_for is None:
            return self._default
        found = self._policy_for(key)
        if found is None:
            return self._default
        if not isinstance(found, Policy):
            raise InvalidInput(f"policy_for({shown(key)}) must return a Policy or None, got {shown(found)}.")
        return found

    @property
    def degraded(self) -> bool:
        """Whether the store is away, or a part of it, so that breakers are not shared."""
        return self._outage is not None and bool(self._outage.degraded)

    @property
    def cut_off(self) -> tuple[str, ...]:
        """A key of each part of the store that is away. `inspect` notices that its part is back, as any call does."""
        cut_off: tuple[str, ...] = () if self._outage is None else self._outage.cut_off
        return cut_off

    def subscribe(self, observer: Observer) -> Subscription:
        """Call `observer(transition)` for each transition, once per process, in order."""
        if not callable(observer) or inspect.iscoroutinefunction(observer):
            raise InvalidInput(f"An observer is a plain function of one transition, got {shown(observer)}.")
        return Subscription(self._session.subscribe(observer))

    def force_open(self, key: str, *, reason: str = "", until: float | None = None, actor: str = "operator") -> T:
        """Refuse every call, until `unforce` or until the instant `until`, which the store must not have passed yet."""
        return self._force(key, Order.FORCE_OPEN, reason, until, actor)

    def force_closed(self, key: str, *, reason: str = "", until: float | None = None, actor: str = "operator") -> T:
        """Let every call pass, whatever its outcome, for as long as `force_open` would refuse it."""
        return self._force(key, Order.FORCE_CLOSED, reason, until, actor)

    def unforce(self, key: str, *, reason: str = "", actor: str = "operator") -> T:
        """End an override: from open to half_open, from closed to closed, with clean counts."""
        return self._force(key, Order.UNFORCE, reason, None, actor)

    def probe(self, key: str, *, reason: str = "", actor: str = "operator") -> T:
        """Let the next caller probe an open breaker now, and not when its cool-off is over. Its counts stay."""
        return self._force(key, Order.PROBE, reason, None, actor)

    def disable(self, key: str, *, reason: str = "", actor: str = "operator") -> T:
        """Refuse every call until `enable`, or until the policy's reenable_after has passed."""
        return self._force(key, Order.DISABLE, reason, None, actor)

    def enable(self, key: str, *, reason: str = "", actor: str = "operator") -> T:
        """Bring a disabled breaker to half_open, with clean counts."""
        return self._force(key, Order.ENABLE, reason, None, actor)

    def reset(self, key: str, *, reason: str = "", actor: str = "operator") -> T:
        """Closed, with nothing held against it; ends an override too."""
        return self._force(key, Order.RESET, reason, None, actor)

    def _force(self, key: str, order: Order, reason: str, until: float | None, actor: str) -> T:
        raise NotImplementedError

    def _settle(
        self,
        admission: Admission,
        outcome: Outcome,
        latency: Duration | None,
        error: BaseException | str | None,
    ) -> float | None:
        """Check a report and mark its admission as settled; returns the latency in seconds."""
        if not isinstance(admission, Admission):
            raise InvalidInput(f"Pass the Admission that admit returned, got {shown(admission)}.")
        if not admission.allowed:
            raise InvalidInput(f"The call to {shown(admission.key)} was refused, so it has no outcome to record.")
        seconds = check_report(outcome, latency, error)
        admission.settle()
        return seconds

    def _give_back(self, admission: Admission) -> bool:
        """Whether there is something to release."""
        if not isinstance(admission, Admission):
            raise InvalidInput(f"Pass the Admission that admit returned, got {shown(admission)}.")
        if not admission.allowed:
            return False
        admission.settle()
        return not admission.would_deny

    def _check_order(self, key: str, reason: str, until: float | None, actor: str) -> Policy:
        check_key(key)
        for name, text in (("reason", reason), ("actor", actor)):
            if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
                raise InvalidInput(f"{name} must be a string of at most {_LONGEST_TEXT} characters, got {shown(text)}.")
        if until is not None and not 0 <= (finite(until) or -1) <= _LAST_INSTANT:
            raise InvalidInput(f"until must be an instant in Unix seconds or None, got {shown(until)}.")
        return self.policy(key)


class Subscription:
    """Ends with `close()`, or with the end of a `with` block. Awaiting it does nothing, so both faces read alike."""

    def __init__(self, unsubscribe: Callable[[], None]) -> None:
        self.close = unsubscribe

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __await__(self) -> Generator[Any, None, Self]:
        return self
        yield


def check_store(store: BreakerStore | None) -> BreakerStore:
    if store is None:
        return MemoryStore()
    faces = (getattr(store, "session", None), getattr(store, "async_session", None))
    if isinstance(store, type) or not all(callable(face) for face in faces):
        raise InvalidInput(f"store must be a breaker store such as MemoryStore(), got {shown(store)}.")
    return store


def check_choice(name: str, choices: type[C], given: str) -> C:
    try:
        return choices(given)
    except ValueError:
        words = " or ".join(f'"{choice}"' for choice in choices)
        raise InvalidInput(f"{name} must be {words}, got {shown(given)}.") from None


def check_report(outcome: Outcome, latency: Duration | None, error: BaseException | str | None) -> float | None:
    """The latency in seconds."""
    if not isinstance(outcome, Outcome):
        raise InvalidInput(f"An outcome is Outcome.OK, .FAILURE, .IGNORED or .throttled(...), got {shown(outcome)}.")
    if error is not None and not isinstance(error, BaseException | str):
        raise InvalidInput(f"error must be an exception or a string, got {shown(error)}.")
    if latency is None:
        return None
    seconds = latency.total_seconds() if isinstance(latency, timedelta) else finite(latency)
    if seconds is None or not 0 <= seconds <= _LONGEST_LATENCY:
        raise InvalidInput(f"latency must be seconds (0 or more) or a timedelta, got {shown(latency)}.")
    return seconds


def check_tally(tally: Counts | None) -> Counts | None:
    if tally is None:
        return None
    if not isinstance(tally, Counts) or any(
        isinstance(each, bool) or not isinstance(each, int) or not 0 <= each <= _MOST for each in tally
    ):
        raise InvalidInput(
            f"A tally is Counts(ok, failed, slow, timed, latency_ms) of whole numbers, got {shown(tally)}."
        )
    return tally


def check_classify(classify: object) -> None:
    if classify is not None and not callable(classify):
        raise InvalidInput(f"classify must be a function of the exception, got {shown(classify)}.")


def check_protect(
    key: str | KeyOf, fallback: object, classify: object, function: object, *, asynchronous: bool
) -> tuple[str, KeyOf]:
    """The key of all calls of `function` (or ""), and how to find that of one call."""
    check_classify(classify)
    if fallback is not None and not callable(fallback):
        raise InvalidInput(f"fallback must be a function of the same arguments, got {shown(fallback)}.")
    if not callable(function):
        raise InvalidInput(f"Only a function can be protected, got {shown(function)}.")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(f"{shown(function)} is a generator: use guard inside it, around the call itself.")
    if inspect.iscoroutinefunction(function) != asynchronous:
        other = "Breakers protects plain functions" if asynchronous else "AsyncBreakers protects coroutine functions"
        raise InvalidInput(f"{shown(function)} does not fit: {other}.")
    if callable(key):
        return "", key
    fixed = check_key(key)
    return fixed, lambda *_args, **_kwargs: fixed
