"""What a contract test of a delivery store stands on."""

from __future__ import annotations

import itertools
from typing import Any, Protocol

import pytest

from hookfuse.core.delivery import Attempt, Claim, Delivery, DeliveryState, Settlement
from hookfuse.core.endpoint import Application, Endpoint
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.ports import DeliveryStore

LEASE = 60


class TurnableClock(Protocol):
    def now(self) -> float: ...

    def advance(self, seconds: float) -> None: ...


class Bench:
    """A store, its clock, and short ways to say what tests say often."""

    def __init__(self, store: DeliveryStore, clock: TurnableClock) -> None:
        self.store = store
        self.clock = clock
        self._numbers = itertools.count(1)

    @property
    def now_ms(self) -> int:
        return round(self.clock.now() * 1000)

    async def application(self, id_: str = "app_1", **settings: Any) -> Application:
        return await self.store.add_application(Application(id_, name=id_, **settings))

    async def endpoint(self, id_: str = "ep_1", app_id: str = "app_1", **settings: Any) -> Endpoint:
        url = settings.pop("url", "https://example.com/hook")
        return await self.store.add_endpoint(Endpoint(id_, app_id, url, **settings))

    async def lane(self, id_: str = "ep_1", app_id: str = "app_1", **settings: Any) -> Endpoint:
        """An application with one endpoint whose lane is as wide as its cap."""
        if await self.store.application(app_id) is None:
            await self.application(app_id)
        endpoint = await self.endpoint(id_, app_id, **settings)
        await self.widen(id_)
        return endpoint

    async def widen(self, endpoint_id: str) -> None:
        """Deliver a few, as a healthy endpoint would have had, until the lane is as wide as its cap."""
        (endpoint,) = await self.store.endpoints([endpoint_id])
        for _ in range(10):
            await self.store.accept([self.message(endpoint.app_id) for _ in range(endpoint.cap)])
            while claims := await self.claim(10_000):
                widest = sum(claim.endpoint_id == endpoint_id for claim in claims)
                await self.settle(*claims)
                if widest == endpoint.cap:
                    return

    def message(self, app_id: str = "app_1", **settings: Any) -> NewMessage:
        number = next(self._numbers)
        id_ = settings.pop("id", f"msg_{number:06}")
        event_type = settings.pop("event_type", "invoice.paid")
        payload = settings.pop("payload", b'{"n": %d}' % number)
        return NewMessage(id_, app_id, event_type, payload, **settings)

    async def send(self, app_id: str = "app_1", **settings: Any) -> str:
        """Accept one message; returns its id."""
        (answer,) = await self.store.accept([self.message(app_id, **settings)])
        assert isinstance(answer, Accepted)
        return answer.id

    async def claim(
        self, limit: int = 100, *, lease: float = LEASE, failing_limit: int = 100, token: int | None = None
    ) -> tuple[Claim, ...]:
        found = await self.store.claim(limit, lease_ms=round(lease * 1000), failing_limit=failing_limit, token=token)
        return found.claims

    async def settle(
        self, *claims: Claim, state: DeliveryState = DeliveryState.SENT, delay: float = 0, **settings: Any
    ) -> list[Claim]:
        """Settle claims after a request each; returns those whose lease was lost."""
        if state is DeliveryState.SENT:
            settings.setdefault("healthy", True)
        settings.setdefault("reason", str(state))
        return list(
            await self.store.settle(
                [
                    Settlement(claim, state, attempt=self.attempt(claim), delay_ms=round(delay * 1000), **settings)
                    for claim in claims
                ]
            )
        )

    async def attempted(self, claim: Claim, **settings: Any) -> None:
        """Settle a claim as failed after an attempt that went as `settings` say."""
        attempt = self.attempt(claim, **settings)
        await self.store.settle([Settlement(claim, DeliveryState.FAILED, "failed", attempt)])

    def attempt(self, claim: Claim, **settings: Any) -> Attempt:
        values: dict[str, Any] = {
            "status": 200,
            "trouble": "",
            "latency_ms": 12,
            "response": b"ok",
            "detail": "",
            **settings,
        }
        return Attempt(
            f"atmpt_{next(self._numbers):06}",
            claim.message_id,
            claim.endpoint_id,
            claim.app_id,
            claim.attempts + 1,
            self.now_ms,
            **values,
        )

    async def delivery(self, message_id: str, endpoint_id: str = "ep_1") -> Delivery:
        found = await self.store.delivery(message_id, endpoint_id)
        assert found is not None
        return found


class OnBench:
    """The tests of a part of the contract."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"
