"""One claim from the breaker's answer to its settlement: admit, sign, send, judge, record, settle."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from hookfuse.breakers import AsyncBreakers
from hookfuse.core import signing
from hookfuse.core.admission import Admission
from hookfuse.core.delivery import Attempt, Claim, Deferral, DeliveryState, Settlement
from hookfuse.core.endpoint import Stop
from hookfuse.core.history import BY_BREAKER, GONE
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, make_id
from hookfuse.core.lanes import BLOCKED_AT_MOST_MS
from hookfuse.core.outcome import FAILURE, OK, Outcome
from hookfuse.core.response import LOCAL_DELAY, Step, Verdict, judge
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.core.state import State, Transition
from hookfuse.delivery.egress import EgressWatch
from hookfuse.delivery.requesting import request_to
from hookfuse.delivery.settler import Settler
from hookfuse.delivery.targets import Target, Targets
from hookfuse.errors import StoreError
from hookfuse.ports import DeliveryStore, Sender

KEPT_BYTES = 4_096
"""How much of a response is kept with its attempt."""

_STATES = {Step.SENT: DeliveryState.SENT, Step.RETRY: DeliveryState.PENDING, Step.FAILED: DeliveryState.FAILED}
_RAMP_PAUSE_MS = 50
"""How long a lane waits when it has as much in flight as its ramp allows."""

_log = logging.getLogger("hookfuse.delivery")


class Attempted(NamedTuple):
    """One attempt with everything that is known of it: for logs and metrics."""

    claim: Claim
    target: Target
    result: SendResult
    verdict: Verdict


OnAttempt: TypeAlias = Callable[[Attempted], None]


class Flight:
    """A request that is on its way without a task."""

    __slots__ = ("admission", "began", "claim", "dial_before", "give_up", "landed", "started", "target")

    give_up: Callable[[], None]

    def __init__(
        self,
        claim: Claim,
        target: Target,
        dial_before: float,
        began: float,
        started: float,
        admission: Admission,
        landed: OnLanding,
    ) -> None:
        self.claim = claim
        self.target = target
        self.dial_before = dial_before
        self.began = began
        """Monotonic seconds; `started` is the same instant by the database's clock."""
        self.started = started
        self.admission = admission
        self.landed = landed


OnLanding: TypeAlias = Callable[[Flight, Coroutine[Any, Any, None] | None], None]
"""Hears of a flight's end, and of what is still to be done and may have to wait."""


class Courier:
    """Delivers claims, as many at once as it is asked to."""

    def __init__(
        self,
        store: DeliveryStore,
        breakers: AsyncBreakers,
        sender: Sender,
        targets: Targets,
        settler: Settler,
        *,
        now: Callable[[], float],
        egress: EgressWatch | None = None,
        sign_ed25519: signing.SignEd25519 | None = None,
        on_attempt: OnAttempt = lambda attempted: None,
    ) -> None:
        self._store = store
        self._breakers = breakers
        self._sender = sender
        self._targets = targets
        self._settler = settler
        self._now = now
        self._egress = egress or EgressWatch()
        self._sign_ed25519 = sign_ed25519
        self._on_attempt = on_attempt

    def launch(self, claim: Claim, target: Target | None, dial_before: float, landed: OnLanding) -> Flight | None:
        """Send at once if there is nothing to wait for but the answer; None: `deliver` it, nothing was done.

        What most deliveries of a busy worker are: a closed breaker, a kept connection, a success. A task for each would
        take a tenth of its time.
        """
        began = time.monotonic()
        if target is None or target.destination is None or began >= dial_before:
            return None
        admission = self._breakers.admit_at_once(target.key)
        if admission is None:
            return None
        started = self._now()
        flight = Flight(claim, target, dial_before, began, started, admission, landed)
        make = partial(request_to, target, claim.message_id, claim.payload, started, self._sign_ed25519)
        try:
            give_up = self._sender.send_at_once(target.destination, make, partial(self._land, flight))
        except Exception:
            # `deliver` meets it again, and knows what is to be done.
            return None
        if give_up is None:
            return None
        flight.give_up = give_up
        return flight

    def _land(self, flight: Flight, result: SendResult | None) -> None:
        claim, target = flight.claim, flight.target
        rest: Coroutine[Any, Any, None] | None = None
        try:
            if result is None:
                rest = self.deliver(claim, target, flight.dial_before, lost=flight.began)
            elif not self._conclude_at_once(flight, result):
                rest = self._see_through(
                    claim, target, self._conclude(claim, target, result, flight.started, flight.admission)
                )
        except Exception:
            self._went_wrong(claim, target)
        flight.landed(flight, rest)

    def _conclude_at_once(self, flight: Flight, result: SendResult) -> bool:
        """Conclude a success that changes nothing; False: it was not done."""
        claim, target = flight.claim, flight.target
        if not result.succeeded or not self._breakers.count_at_once(flight.admission, result.latency):
            return False
        self._egress.saw(claim.endpoint_id, result, time.monotonic())
        verdict = judge(result, claim.spent, target.retry, target.response, flight.started, 0.0)
        self._write_down(claim, target, result, verdict, flight.started)
        return True

    async def deliver(
        self, claim: Claim, target: Target | None, dial_before: float, *, lost: float | None = None
    ) -> None:
        """See a claim through to its settlement, whatever happens. `dial_before` is monotonic seconds.

        So is `lost`: when it was sent on a kept connection that turned out to be closed.
        """
        await self._see_through(claim, target, self._deliver(claim, target, dial_before, lost))

    async def _see_through(self, claim: Claim, target: Target | None, steps: Coroutine[Any, Any, None]) -> None:
        try:
            await steps
        except asyncio.CancelledError:
            self.release(claim)
            raise
        except Exception:
            self._went_wrong(claim, target)

    def release(self, claim: Claim) -> None:
        """Give a claim back; whoever gets it next begins anew."""
        self._settler.defer(Deferral(claim, "released"))

    def _went_wrong(self, claim: Claim, target: Target | None) -> None:
        # A message that breaks us must not come back for ever, so it spends an attempt of its schedule.
        _log.exception("delivery of %s to %s went wrong here", claim.message_id, claim.endpoint_id)
        self._settler.settle(_broken(claim, target))

    async def _deliver(self, claim: Claim, target: Target | None, dial_before: float, lost: float | None) -> None:
        if target is None:
            self._settler.settle(Settlement(claim, DeliveryState.CANCELLED, "endpoint_missing", spent=False))
        elif target.destination is None:
            await self._conclude(claim, target, _unfit(target), self._now(), None)
        else:
            await self._ask(claim, target, dial_before, lost)

    async def _ask(self, claim: Claim, target: Target, dial_before: float, lost: float | None) -> None:
        unblocked = self._settler.unblocked
        admission = await self._breakers.admit(target.key)
        if not admission.allowed and self._settler.unblocked != unblocked:
            # The breaker may have changed while the answer was on its way; an old refusal must not block its lane.
            admission = await self._breakers.admit(target.key)
        if not admission.allowed:
            self._settler.defer(_denied(claim, admission))
            return
        settled = False
        try:
            if admission.share < 1 and claim.in_flight > max(1, int(target.cap * admission.share)):
                self._settler.defer(Deferral(claim, "ramp", wait_ms=_RAMP_PAUSE_MS))
                return
            if time.monotonic() >= dial_before:
                # The lease would end in mid-request, and someone else would send it too.
                self._settler.defer(Deferral(claim, "lease_short"))
                return
            started = self._now()
            request = request_to(target, claim.message_id, claim.payload, started, self._sign_ed25519)
            if lost is not None:
                # Once, and within the same deadline: other kept connections may be closed as well.
                left = max(0.0, request.timeout - (time.monotonic() - lost))
                request = request._replace(timeout=left, anew=True)
            result = await self._sender.send(request)
            settled = True
            await self._conclude(claim, target, result, started, admission)
        finally:
            if not settled:
                await self._breakers.release(admission)

    async def _conclude(
        self, claim: Claim, target: Target, result: SendResult, started: float, admission: Admission | None
    ) -> None:
        verdict = judge(result, claim.spent, target.retry, target.response, self._now(), random.random())
        if self._egress.saw(claim.endpoint_id, result, time.monotonic()):
            verdict = Verdict(Step.RETRY, Outcome.IGNORED, "egress_suspect", int(LOCAL_DELAY * 1000), spent=False)
        if admission is not None:
            try:
                transition = await self._breakers.record(
                    admission, verdict.outcome, latency=result.latency, error=_error_text(result)
                )
            except asyncio.CancelledError:
                # What was sent must not be sent again because this process ends.
                self._write_down(claim, target, result, verdict, started)
                raise
            if transition is not None:
                await self._heed(target, transition)
        if verdict.disable:
            await self._disable_gone(claim, target)
        if verdict.flag and verdict.flag != target.flag:
            await self._quietly(self._store.change_endpoint(claim.endpoint_id, {"flag": verdict.flag}))
        self._write_down(claim, target, result, verdict, started)

    def _write_down(self, claim: Claim, target: Target, result: SendResult, verdict: Verdict, started: float) -> None:
        attempt = _attempt(claim, result, started)
        self._settler.settle(_settlement(claim, verdict, attempt, attempt.latency_ms >= target.policy.slow_ms))
        try:
            self._on_attempt(Attempted(claim, target, result, verdict))
        except Exception:
            # It is settled; who only listens cannot change that.
            _log.exception("telling of an attempt for %s went wrong", claim.message_id)

    async def _heed(self, target: Target, transition: Transition) -> None:
        """A breaker that disables for good stops its endpoints; one that comes back by itself needs no help."""
        if transition.after is State.DISABLED and target.policy.reenable_ms is None:
            for endpoint_id in self._targets.endpoints_of(target.key):
                await self._disable(endpoint_id, BY_BREAKER + transition.reason, transition)

    async def _disable_gone(self, claim: Claim, target: Target) -> None:
        """Its own breaker is disabled too, so that it comes back as any disabled one does; a shared one is not."""
        own = target.key == f"{claim.app_id}/{claim.endpoint_id}"
        # The endpoint first: it says so to everyone, and a crash in between leaves a breaker that only has to be asked.
        if not own or target.policy.reenable_ms is None:
            await self._disable(claim.endpoint_id, GONE)
        if own:
            await self._quietly(self._breakers.disable(target.key, reason=GONE, actor="breaker"))

    async def _disable(self, endpoint_id: str, reason: str, because: Transition | None = None) -> None:
        await self._quietly(self._store.stop_endpoint(endpoint_id, Stop.DISABLED, reason, because=because))

    async def _quietly(self, change: Awaitable[object]) -> None:
        try:
            await change
        except StoreError as error:
            # The same answer will come again, and with it another chance.
            _log.warning("an endpoint could not be changed: %s", error)


def _unfit(target: Target) -> SendResult:
    trouble = Trouble.BLOCKED if target.trouble == Trouble.BLOCKED else Trouble.LOCAL
    return SendResult(None, trouble, 0.0, detail=target.trouble)


def _denied(claim: Claim, admission: Admission) -> Deferral:
    wait = admission.retry_after
    wait_ms = BLOCKED_AT_MOST_MS if wait is None else min(int(wait * 1000) + 1, BLOCKED_AT_MOST_MS)
    return Deferral(claim, f"breaker_{admission.reason}", wait_ms=max(wait_ms, 1))


def _settlement(claim: Claim, verdict: Verdict, attempt: Attempt, slow: bool) -> Settlement:
    kind = verdict.outcome.kind
    healthy = True if kind is OK else False if kind is FAILURE else None
    return Settlement(
        claim, _STATES[verdict.step], verdict.reason, attempt, verdict.delay_ms or 0, verdict.spent, healthy, slow
    )


def _attempt(claim: Claim, result: SendResult, started: float) -> Attempt:
    at_ms = int(started * 1000)
    return Attempt(
        make_id(IdKind.ATTEMPT, at_ms, random.randbytes(ENTROPY_BYTES)),
        claim.message_id,
        claim.endpoint_id,
        claim.app_id,
        claim.attempts + 1,
        at_ms,
        result.status,
        "" if result.trouble is None else result.trouble.value,
        int(result.latency * 1000 + 0.5),
        result.body[:KEPT_BYTES],
        result.detail,
        claim.manual,
    )


def _broken(claim: Claim, target: Target | None) -> Settlement:
    delay_ms = None if target is None else target.retry.delay_ms(claim.spent + 1, random.random())
    if delay_ms is None:
        return Settlement(claim, DeliveryState.FAILED, "internal_error")
    return Settlement(claim, DeliveryState.PENDING, "internal_error", delay_ms=delay_ms)


def _error_text(result: SendResult) -> str | None:
    if result.trouble is not None:
        return f"{result.trouble.value}: {result.detail}" if result.detail else result.trouble.value
    return None if result.succeeded else f"status {result.status}"
