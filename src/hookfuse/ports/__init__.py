"""What the inner layers need from the outer ones, as Protocols.

A store has two faces, one for threads and one for asyncio, and hands out a session for each. The verbs
of the hot path are the same in both: they never wait, so they need no `await`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

from hookfuse.core.admission import Admission
from hookfuse.core.delivery import Attempt, Chosen, Claim, Claims, Deferral, Delivery, Place, Rescued, Settlement
from hookfuse.core.destination import Destination
from hookfuse.core.duty import Tenure
from hookfuse.core.endpoint import Application, Endpoint, Stop
from hookfuse.core.message import Answer, Message, NewMessage
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.secret import Secret
from hookfuse.core.sending import Request, SendResult
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.errors import BreakerOpen
from hookfuse.ports.duties import Duties
from hookfuse.ports.members import Members
from hookfuse.ports.notices import Notices
from hookfuse.ports.overview import Overview
from hookfuse.ports.sampling import Sampling
from hookfuse.ports.service import Presets, ServiceStore
from hookfuse.ports.standings import Standings
from hookfuse.ports.tallies import Tallies
from hookfuse.ports.upkeep import Upkeep
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


class AsyncBreakerSession(HotPath, Sampling, Protocol):
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


class Directory(Presets, Protocol):
    """Applications and their endpoints. Ids are found by id or by uid; what is missing is None."""

    async def add_application(self, application: Application) -> Application: ...

    async def application(self, id_or_uid: str) -> Application | None: ...

    async def change_application(self, id_: str, changes: Mapping[str, Any]) -> Application | None: ...

    async def delete_application(self, id_: str) -> bool: ...

    async def add_endpoint(self, endpoint: Endpoint) -> Endpoint: ...

    async def endpoint(self, app_id: str, id_or_uid: str) -> Endpoint | None: ...

    async def endpoints(self, ids: Sequence[str]) -> Sequence[Endpoint]:
        """Those of these ids that exist, in no particular order."""
        ...

    async def change_endpoint(
        self, id_: str, changes: Mapping[str, Any], *, version: int | None = None
    ) -> Endpoint | None:
        """Change some fields; the version grows, and every worker sees it at its next claim.

        None: there is no such endpoint, or it is no longer of the `version` that was asked for.
        """
        ...

    async def stop_endpoint(
        self,
        id_: str,
        stop: Stop,
        reason: str = "",
        *,
        because: Transition | None = None,
        tenure: Tenure | None = None,
    ) -> Endpoint | None:
        """Send nothing to it until `start_endpoint` takes this reason to stop away; None: nothing was changed.

        The transition of the breaker that stops it is kept in the same transaction.
        """
        ...

    async def start_endpoint(self, id_: str, stop: Stop) -> Endpoint | None: ...

    async def delete_endpoint(self, id_: str) -> bool:
        """Its waiting deliveries are cancelled; its history stays until it is pruned."""
        ...

    async def pause_application(self, id_: str, paused: bool) -> Application | None: ...


class Lanes(Protocol):
    """The delivery verbs. Each is one transaction; all instants are the database's.

    What is done for a duty carries its tenure, and does nothing if the duty has changed hands.
    """

    async def accept(self, messages: Sequence[NewMessage]) -> Sequence[Answer]:
        """Store messages with a delivery for each matching endpoint: committed when this returns."""
        ...

    async def claim(self, limit: int, *, lease_ms: int, failing_limit: int, token: int | None = None) -> Claims:
        """Take up to `limit` due deliveries, of failing lanes up to `failing_limit`, with a lease on each.

        Whoever chooses the token of the leases can give them back though the answer never came; else one is drawn.
        """
        ...

    async def disclaim(self, tokens: Sequence[int]) -> Mapping[int, int]:
        """Give back untouched whatever these tokens hold; returns how many each of them held, if any.

        A claim that the database still works on holds nothing yet; of one that is done, everything is found.
        """
        ...

    async def settle(self, settlements: Sequence[Settlement]) -> Sequence[Claim]:
        """Write what became of claims; returns those whose lease was lost, which changed nothing."""
        ...

    async def defer(self, deferrals: Sequence[Deferral]) -> None:
        """Give claims back untouched, and block their lanes."""
        ...

    async def unblock(self, endpoint_ids: Sequence[str]) -> None:
        """A breaker changed: look at these lanes again."""
        ...

    async def rescue(self, *, deaths: int, limit: int = 1000, tenure: Tenure | None = None) -> Rescued:
        """Return deliveries whose lease ended; those that lost this many workers have failed."""
        ...

    async def older(self, than_ms: int) -> int:
        """How many messages were accepted before this, ended or not."""
        ...

    async def prune(self, *, older_than_ms: int, limit: int = 1000, tenure: Tenure | None = None) -> int:
        """Forget up to `limit` messages that are older and have no open delivery; returns how many."""
        ...

    async def wait(self, seconds: float) -> None:
        """Return when something may have become due, or after this long."""
        ...


class Desk(Protocol):
    """What people look at, and what they do by hand."""

    async def message(self, app_id: str, id_or_uid: str) -> Message | None: ...

    async def delivery(self, message_id: str, endpoint_id: str) -> Delivery | None: ...

    async def deliveries(self, chosen: Chosen, *, after: Place | None = None, limit: int = 100) -> Sequence[Delivery]:
        """A page of the chosen deliveries, oldest first."""
        ...

    async def count(self, chosen: Chosen) -> int: ...

    async def attempts(self, message_id: str, endpoint_id: str | None = None) -> Sequence[Attempt]: ...

    async def retry(self, pairs: Sequence[Place]) -> int:
        """Send these again from the beginning of their schedule; those with a worker are left alone."""
        ...

    async def cancel(self, pairs: Sequence[Place]) -> int:
        """End these if they are waiting; those with a worker are left alone."""
        ...

    async def expunge(self, app_id: str, message_id: str) -> bool:
        """Forget a message's content; what still waits is cancelled."""
        ...


class DeliveryStore(
    Directory, Lanes, Desk, ServiceStore, Overview, Notices, Upkeep, Duties, Members, Tallies, Standings, Protocol
):
    """Where messages live until they are delivered, and after."""

    async def open(self) -> None:
        """Bring the schema up to date and be ready."""
        ...

    async def close(self) -> None: ...


class Sender(Protocol):
    """Carries requests to endpoints. What goes wrong there is a value; only misuse raises."""

    async def send(self, request: Request) -> SendResult: ...

    def send_at_once(
        self,
        destination: Destination,
        make: Callable[[], Request],
        answered: Callable[[SendResult | None], None],
    ) -> Callable[[], None] | None:
        """Send a request for which nothing has to be waited for, and call `answered` with what came of it.

        Returns what gives the request up, so that `answered` is not called; or None: `send` it, nothing was made.
        `answered` may be told None: nothing came of it, and it has to be sent anew.
        """
        ...

    async def close(self) -> None: ...


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
