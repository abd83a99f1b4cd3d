"""What happens when the store cannot be reached. This choice is made here and nowhere else.

    "local"   breakers of this process carry on, beginning with what this process knew (the default)
    "allow"   every call passes
    "deny"    every call is refused

Never silently closed: such an admission says `degraded`, a log line tells the beginning and the end, and
`breakers.degraded` says it as long as it lasts. The store has a breaker of its own, so that a dead one is asked by one
call now and then, not by every call. Outcomes of degraded calls stay in this process; one that the store may have
missed is not sent again: maybe lost, never doubled. When the store is back, keys that are open here stay refused until
their probe is due here; then the store decides.

Whoever samples cannot judge while the store is away, so a sampled policy judges every outcome here, by the same rules.

A store may have parts that are lost one by one, as the nodes of a cluster are. Then each of them has such a breaker,
and nothing changes for keys of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from hookfuse.core.admission import Admission, Denial
from hookfuse.core.outcome import OK, Outcome
from hookfuse.core.policy import Evaluate, Policy
from hookfuse.core.rules import Streak
from hookfuse.core.state import State, Transition
from hookfuse.errors import StoreError, StoreUnavailable
from hookfuse.local import MemoryStore
from hookfuse.ports import HotPath
from hookfuse.telemetry import Observer

_log = logging.getLogger("hookfuse")
_STORE = "The breaker store"
# Half a second at most, so that all processes agree again within one after the store is back.
_STORE_POLICY = Policy(trip=Streak(1), cool_off=0.2, cool_off_factor=2, cool_off_max=0.5, jitter=0.1, probe_lease=1)


@lru_cache(maxsize=1024)
def _judging_inline(policy: Policy) -> Policy:
    return replace(policy, evaluate=Evaluate.INLINE)


def _local(policy: Policy) -> Policy:
    """The policy of a breaker that nobody samples."""
    return policy if policy.inline else _judging_inline(policy)


class OutageChoice(StrEnum):
    LOCAL = "local"
    ALLOW = "allow"
    DENY = "deny"


class Outage:
    """Knows whether the store is to be asked, and answers in its place. Nothing here waits."""

    def __init__(self, choice: OutageChoice, session: HotPath) -> None:
        self._lost: dict[str, str] = {}
        """Parts that are thought to be away, each with a key that it had."""
        self._choice = choice
        self._session = session
        self._met = False
        self._local = MemoryStore()
        self._own = MemoryStore()

    @property
    def degraded(self) -> bool:
        """Whether any part of the store is thought to be away."""
        return bool(self._lost)

    @property
    def cut_off(self) -> tuple[str, ...]:
        return tuple(self._lost.values())

    def ask(self, key: str) -> Admission | None:
        """Leave to ask the part of the store that has this key; None while it is thought to be away."""
        admission = self._own.admit(self._part(key), _STORE_POLICY)
        return admission if admission.allowed else None

    def answered(self, leave: Admission) -> None:
        self._met = True
        if leave.probe or leave.key in self._lost:
            self._own.record(leave, Outcome.OK, None, None)
        for part, key in list(self._lost.items()):
            # One whose keys have gone to another part is asked by nobody any more.
            here_again = part == leave.key or self._part(key) != part
            if here_again and self._lost.pop(part, None) is not None:
                _log.warning("%s is back or replaced; its breakers are shared again.", part)

    def reported(self, leave: Admission, admission: Admission, outcome: Outcome) -> None:
        """A report was taken; that of a plain success may only have been buffered, and proves nothing."""
        if outcome.kind is OK and admission.token is None:
            self._own.release(leave)
        else:
            self.answered(leave)

    def failed(self, leave: Admission, key: str, error: StoreError) -> None:
        """The store did not answer, or not this question. Raises what only a person can mend."""
        if not isinstance(error, StoreUnavailable):
            self._own.release(leave)
            if not self._met:
                raise error
            _log.warning("%s This call is answered by this process alone.", error)
            return
        self._own.record(leave, Outcome.FAILURE, None, error)
        if leave.key not in self._lost:
            _log.warning("%s Until it is back, breakers are not shared: outage=%r.", error, str(self._choice))
        self._lost[leave.key] = key

    def refused(self, key: str, policy: Policy) -> Admission | None:
        """A refusal that outlives the outage: a key that is open here, until its probe is due here."""
        if self._choice is not OutageChoice.LOCAL or not self._local.knows(key):
            return None
        policy = _local(policy)
        seen = self._local.inspect(key, policy)
        if seen.state is State.OPEN and seen.probe_at is not None and self._local.timer() < seen.probe_at:
            return self._degrade(self._local.admit(key, policy))
        if self._part(key) not in self._lost:
            self._local.forget(key)
            self._tell_hot_path("trust", key)
        return None

    def admit(self, key: str, policy: Policy) -> Admission:
        """The answer in the store's place."""
        if self._choice is OutageChoice.DENY:
            admission = Admission(key, policy, 0)
            admission.allowed = False
            admission.reason = Denial.STORE_UNAVAILABLE
            admission.why = "the breaker store cannot be reached"
            admission.wait_ms = self._own.admit(self._part(key), _STORE_POLICY).wait_ms or 0
            admission.at_ms = int(self._own.timer() * 1000)
            return self._degrade(admission)
        if self._choice is OutageChoice.LOCAL:
            if not self._local.knows(key):
                known = self._last_known(key, policy)
                if known is not None and not known.allowed:
                    self._local.adopt(known)
            return self._degrade(self._local.admit(key, _local(policy)))
        return self._degrade(Admission(key, policy, 0))

    def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        """Learn from an outcome that the store will not hear of."""
        if self._choice is not OutageChoice.LOCAL:
            return None
        if not admission.degraded:
            # Of the store's own admission only the outcome counts here: its lease and generation are not ours.
            admission = self._local.admit(admission.key, _local(admission.policy))
            if not admission.allowed:
                return None
        transition = self._local.record(admission, outcome, latency, error)
        if transition is not None:
            # The store may hear of nothing for a moment only, and its hot path then still calls this key healthy.
            self._tell_hot_path("doubt", admission.key)
        return transition

    def release(self, admission: Admission) -> None:
        self._local.release(admission)

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        return self._local.subscribe(observer)

    def _part(self, key: str) -> str:
        part: Callable[[str], str] | None = getattr(self._session, "part", None)
        return part(key) if part is not None else _STORE

    def _last_known(self, key: str, policy: Policy) -> Admission | None:
        last_known: Callable[[str, Policy], Admission | None] | None = getattr(self._session, "last_known", None)
        return last_known(key, policy) if last_known is not None else None

    def _tell_hot_path(self, verb: Literal["doubt", "trust"], key: str) -> None:
        """Every call of a key that is not healthy in this process must come here, even while its mirror is fresh."""
        tell: Callable[[str], None] | None = getattr(self._session, verb, None)
        if tell is not None:
            tell(key)

    def _degrade(self, admission: Admission) -> Admission:
        admission.degraded = True
        return admission
