"""What the inner layers need from the outer ones, as Protocols.

A store has two faces, one for threads and one for asyncio, and hands out a session for each. The verbs
of the hot path are the same in both: they never wait, so they need no `await`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from enum import StrEnum
from typing import Protocol

from hookfuse.core.admission import Admission
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.secret import Secret
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.errors import BreakerOpen
from hookfuse.telemetry import Observer


class Consistency(StrEnum):
    """How sure an answer must be: from what this process knows, or asked of the store every time."""

    MIRROR = "mirror"
    STRICT = "strict"


class Clock(Protocol):
    """Unix seconds."""

    def now(self) -> float: ...


class HotPath(Protocol):
    """What a healthy call costs, and what a refused one does. Nothing here may wait for anything."""

    timer: Callable[[], float]
    """Seconds on a clock that suits latencies."""

    def healthy(self, key: str) -> int | None:
        """The generation that a call may carry if the key is known to be plainly closed, else None."""
        ...

    def refusal(self, key: str, policy: Policy) -> BreakerOpen | None:
        """The refusal, if the key is known to be open for longer; None: ask `admit`."""
        ...

    def succeeded(self, key: str, policy: Policy, generation: int, started: float) -> None:
        """Count a success of a call that `healthy` let through; `started` is a reading of `timer`."""
        ...

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Tell `observer` each transition once; returns what ends it."""
        ...


class BreakerSession(HotPath, Protocol):
    """Every verb is one atomic step on the store's clock."""

    def admit(self, key: str, policy: Policy) -> Admission: ...

    def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None: ...

    def release(self, admission: Admission) -> None: ...

    def force(
        self, key: str, policy: Policy, order: Order, *, reason: str, until: float | None, actor: str
    ) -> Transition | None: ...

    def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> tuple[Transition, ...]: ...

    def inspect(self, key: str, policy: Policy) -> Snapshot: ...

    def unhealthy(self, policy_for: Callable[[str], Policy]) -> Iterator[Snapshot]: ...

    def catch_up(self) -> None:
        """Wait until this process has heard of all that has happened so far."""
        ...

    def close(self) -> None: ...


class AsyncBreakerSession(HotPath, Protocol):
    """The same verbs as coroutines."""

    async def admit(self, key: str, policy: Policy) -> Admission: ...

    async def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None: ...

    async def release(self, admission: Admission) -> None: ...

    async def force(
        self, key: str, policy: Policy, order: Order, *, reason: str, until: float | None, actor: str
    ) -> Transition | None: ...

    async def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> tuple[Transition, ...]: ...

    async def inspect(self, key: str, policy: Policy) -> Snapshot: ...

    def unhealthy(self, policy_for: Callable[[str], Policy]) -> AsyncIterator[Snapshot]: ...

    async def catch_up(self) -> None: ...

    async def close(self) -> None: ...


class BreakerStore(Protocol):
    """Where breakers live. One object serves both faces."""

    def session(self, consistency: Consistency) -> BreakerSession: ...

    def async_session(self, consistency: Consistency) -> AsyncBreakerSession: ...


class Sealer(Protocol):
    """Keeps secrets unreadable at rest. `about` says what a secret belongs to and must be the same at both ends."""

    def seal(self, plain: bytes, about: bytes) -> bytes: ...

    def open(self, sealed: bytes, about: bytes) -> bytes:
        """Raises a SealingError if no key fits or anything was changed."""
        ...

    def needs_resealing(self, sealed: bytes) -> bool:
        """Whether it was sealed with a key that is no longer the newest."""
        ...


class Ed25519(Protocol):
    """Signatures that everyone can verify and only the owner of the private key can make."""

    def generate(self) -> Secret: ...

    def check(self, secret: Secret) -> None:
        """Raises InvalidInput if the two halves of a v1a secret do not belong together."""
        ...

    def sign(self, private: bytes, message: bytes) -> bytes: ...

    def verify(self, public: bytes, signature: bytes, message: bytes) -> bool: ...
