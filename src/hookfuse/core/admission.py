"""The answer to "may I call?"."""

from __future__ import annotations

from enum import StrEnum

from hookfuse.core.policy import Policy
from hookfuse.core.state import State
from hookfuse.errors import AlreadySettled, BreakerOpen, shown


class Denial(StrEnum):
    """Why a call is refused."""

    OPEN = "open"
    PROBING = "probing"
    THROTTLED = "throttled"
    DISABLED = "disabled"
    FORCED_OPEN = "forced_open"
    STORE_UNAVAILABLE = "store_unavailable"


class Admission:
    """Allowed, allowed as a probe, or refused with the time to come back.

    Settle an allowed one exactly once: `record` its outcome, or `release` it when no call was made.
    """

    # An ordinary pass is these defaults; only what differs is set on the instance, which keeps it cheap.
    # `why` is what opened the breaker, in words; `at_once` says that nobody was asked, the key being plainly closed.
    allowed: bool = True
    probe: bool = False
    reason: Denial | None = None
    state: State = State.CLOSED
    degraded: bool = False
    at_once: bool = False
    share: float = 1.0
    would_deny: bool = False
    token: str | None = None
    at_ms: int = 0
    wait_ms: int | None = None
    why: str = ""

    def __init__(self, key: str, policy: Policy, generation: int) -> None:
        self.key = key
        self.policy = policy
        self.generation = generation
        self._unsettled = True

    @property
    def retry_after(self) -> float | None:
        """Seconds until it is worth asking again; None when allowed, or when nobody knows."""
        return None if self.wait_ms is None else self.wait_ms / 1000

    @property
    def retry_at(self) -> float | None:
        """`retry_after` as an instant of the store's clock."""
        return None if self.wait_ms is None else (self.at_ms + self.wait_ms) / 1000

    @property
    def settled(self) -> bool:
        return "_unsettled" not in self.__dict__

    def settle(self) -> None:
        """Mark it settled; deleting is atomic, so of two threads exactly one succeeds."""
        try:
            del self._unsettled
        except AttributeError:
            raise AlreadySettled(
                f"The admission of {shown(self.key)} was already recorded or released; ask for a new one per call."
            ) from None

    def refusal(self) -> BreakerOpen:
        return BreakerOpen(self.key, self.state, self.retry_at, self.reason or Denial.OPEN, self.why, self.retry_after)

    def __repr__(self) -> str:
        if not self.allowed:
            answer = f"refused, {self.reason}, retry_after={self.retry_after}"
        elif self.probe:
            answer = "probe"
        else:
            answer = "allowed, would be refused" if self.would_deny else "allowed"
        return f"<Admission {shown(self.key)}: {answer}, generation={self.generation}>"
