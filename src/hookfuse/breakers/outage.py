"""What happens when the store cannot be reached. This choice is made here and nowhere else.

    "local"   breakers of this process carry on, beginning with what this process knew (the default)
    "allow"   every call passes
    "deny"    every call is refused

Never silently closed: such an admission says `degraded`, a log line tells the beginning and the end, and
`breakers.degraded` says it as long as it lasts. The store has a breaker of its own, so that a dead one is asked by one
call now and then, not by every call. Outcomes of degraded calls stay in this process; one that the store may have
missed is not sent again: maybe lost, never doubled. When the store is back, keys that are open here stay refused until
their probe is due here; then the store decides.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum

from hookfuse.core.admission import Admission, Denial
from hookfuse.core.outcome import OK, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Streak
from hookfuse.core.state import State, Transition
from hookfuse.errors import StoreError, StoreUnavailable
from hookfuse.local import MemoryStore
from hookfuse.ports import HotPath
from hookfuse.telemetry import Observer

_log = logging.getLogger("hookfuse")
_STORE = "store"
_STORE_POLICY = Policy(trip=Streak(1), cool_off=0.2, cool_off_factor=2, cool_off_max=2, jitter=0.1, probe_lease=1)


class OutageChoice(StrEnum):
    LOCAL = "local"
    ALLOW = "allow"
    DENY = "deny"


class Outage:
    """Knows whether the store is to be asked, and answers in its place. Nothing here waits."""

    def __init__(self, choice: OutageChoice, session: HotPath) -> None:
        self.degraded = False
        self._choice = choice
        self._session = session
        self._met = False
        self._local = MemoryStore()
        self._own = MemoryStore()

    def ask(self) -> Admission | None:
        """Leave to ask the store; None while it is thought to be away."""
        admission = self._own.admit(_STORE, _STORE_POLICY)
        return admission if admission.allowed else None

    def answered(self, leave: Admission) -> None:
        self._met = True
        if self.degraded or leave.probe:
            self._own.record(leave, Outcome.OK, None, None)
        if self.degraded:
            self.degraded = False
            _log.warning("The breaker store is back; its breakers are shared again.")

    def reported(self, leave: Admission, admission: Admission, outcome: Outcome) -> None:
        """A report was taken; that of a plain success may only have been buffered, and proves nothing."""
        if outcome.kind is OK and admission.token is None:
            self._own.release(leave)
        else:
            self.answered(leave)

    def failed(self, leave: Admission, error: StoreError) -> None:
        """The store did not answer, or not this question. Raises what only a person can mend."""
        if not isinstance(error, StoreUnavailable):
            self._own.release(leave)
            if not self._met:
                raise error
            _log.warning("%s This call is answered by this process alone.", error)
            return
        self._own.record(leave, Outcome.FAILURE, None, error)
        if not self.degraded:
            self.degraded = True
            _log.warning("%s Until it is back, breakers are not shared: outage=%r.", error, str(self._choice))

    def refused(self, key: str, policy: Policy) -> Admission | None:
        """A refusal that outlives the outage: a key that is open here, until its probe is due here."""
        if self._choice is not OutageChoice.LOCAL or not self._local.knows(key):
            return None
        seen = self._local.inspect(key, policy)
        if seen.state is State.OPEN and seen.probe_at is not None and self._local.timer() < seen.probe_at:
            return self._degrade(self._local.admit(key, policy))
        if not self.degraded:
            self._local.forget(key)
        return None

    def admit(self, key: str, policy: Policy) -> Admission:
        """The answer in the store's place."""
        if self._choice is OutageChoice.DENY:
            admission = Admission(key, policy, 0)
            admission.allowed = False
            admission.reason = Denial.STORE_UNAVAILABLE
            admission.why = "the breaker store cannot be reached"
            admission.wait_ms = self._own.admit(_STORE, _STORE_POLICY).wait_ms or 0
            admission.at_ms = int(self._own.timer() * 1000)
            return self._degrade(admission)
        if self._choice is OutageChoice.LOCAL:
            if not self._local.knows(key):
                known = self._last_known(key, policy)
                if known is not None and not known.allowed:
                    self._local.adopt(known)
            return self._degrade(self._local.admit(key, policy))
        return self._degrade(Admission(key, policy, 0))

    def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        """Learn from an outcome that the store will not hear of."""
        if self._choice is not OutageChoice.LOCAL:
            return None
        if not admission.degraded:
            # Of the store's own admission only the outcome counts here: its lease and generation are not ours.
            admission = self._local.admit(admission.key, admission.policy)
            if not admission.allowed:
                return None
        return self._local.record(admission, outcome, latency, error)

    def release(self, admission: Admission) -> None:
        self._local.release(admission)

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        return self._local.subscribe(observer)

    def _last_known(self, key: str, policy: Policy) -> Admission | None:
        last_known: Callable[[str, Policy], Admission | None] | None = getattr(self._session, "last_known", None)
        return last_known(key, policy) if last_known is not None else None

    def _degrade(self, admission: Admission) -> Admission:
        admission.degraded = True
        return admission
