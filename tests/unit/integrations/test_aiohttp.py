"""What is particular to aiohttp."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Policy, Snapshot, State
from hookfuse.errors import InvalidInput
from hookfuse.integrations.aiohttp import breaker_middleware
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from tests.unit.integrations.endpoint import Endpoint


@pytest.fixture
def breakers(store: MemoryStore, policy: Policy) -> AsyncBreakers:
    return AsyncBreakers(store, policy=policy)


class SilentResolver(AbstractResolver):
    """Never finds an address, as for a host that never lets us connect."""

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        await asyncio.Event().wait()
        return []

    async def close(self) -> None: ...


def test_total_timeout_while_connecting_is_a_failure(breakers: AsyncBreakers) -> None:
    """aiohttp cancels its own task at the total timeout; that is a failure, not a caller who went away."""

    async def connect_in_vain() -> Snapshot:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=SilentResolver()),
            timeout=aiohttp.ClientTimeout(total=0.05),
            middlewares=[breaker_middleware(breakers, key=lambda _: "ep")],
        ) as session:
            with pytest.raises(TimeoutError):
                await session.get("http://silent.test")
        return await breakers.inspect("ep")

    assert [failure.type for failure in asyncio.run(connect_in_vain()).failures] == ["TimeoutError"]


def test_total_timeout_before_the_headers_is_a_failure(breakers: AsyncBreakers, endpoint: Endpoint) -> None:
    """An endpoint that accepts the request and never answers fails at the total timeout."""

    async def wait_in_vain() -> Snapshot:
        async with aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=0.05),
            middlewares=[breaker_middleware(breakers, key=lambda _: "ep")],
        ) as session:
            with pytest.raises(TimeoutError):
                await session.get(endpoint.url)
        return await breakers.inspect("ep")

    endpoint.hang()
    assert [failure.type for failure in asyncio.run(wait_in_vain()).failures] == ["TimeoutError"]


def test_cancel_while_connecting_is_given_back(breakers: AsyncBreakers, clock: ManualClock) -> None:
    """A caller's own timeout around a probe is a cancel: the slot is free and nothing is counted."""

    async def give_up() -> Snapshot:
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=SilentResolver()),
            middlewares=[breaker_middleware(breakers, key=lambda _: "ep")],
        ) as session:
            await breakers.disable("ep")
            await breakers.enable("ep")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await session.get("http://silent.test")
        return await breakers.inspect("ep")

    found = asyncio.run(give_up())
    assert (found.state, found.probes_in_flight, found.totals.failed) == (State.HALF_OPEN, 0, 0)


@pytest.mark.parametrize(("method", "sent"), [("GET", 2), ("POST", 1)])
def test_second_try_of_aiohttp_is_a_call_of_its_own(
    store: MemoryStore, endpoint: Endpoint, method: str, sent: int
) -> None:
    """aiohttp repeats an idempotent request whose connection broke; each request sent counts once."""
    breakers = AsyncBreakers(store)

    async def ask() -> Snapshot:
        async with aiohttp.ClientSession(middlewares=[breaker_middleware(breakers, key=lambda _: "ep")]) as session:
            with pytest.raises(aiohttp.ClientConnectionError):
                await session.request(method, endpoint.url)
        return await breakers.inspect("ep")

    endpoint.reset()
    assert asyncio.run(ask()).totals.failed == len(endpoint.paths) == sent


def test_refusal_is_not_tried_again(breakers: AsyncBreakers, endpoint: Endpoint) -> None:
    """aiohttp's second try does not apply to a refusal: the key is asked for once."""
    asked: list[str] = []

    def key(request: aiohttp.ClientRequest) -> str:
        asked.append(request.method)
        return "ep"

    async def ask() -> None:
        await breakers.force_open("ep")
        async with aiohttp.ClientSession(middlewares=[breaker_middleware(breakers, key=key)]) as session:
            with pytest.raises(BreakerOpen):
                await session.get(endpoint.url)

    asyncio.run(ask())
    assert asked == ["GET"]


def test_later_middlewares_are_inside_one_call(breakers: AsyncBreakers, endpoint: Endpoint) -> None:
    """A retrying middleware after the breaker's makes many requests of one call."""

    async def three_times(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        for _ in range(2):
            (await handler(request)).release()
        return await handler(request)

    async def ask() -> Snapshot:
        guarded = breaker_middleware(breakers, key=lambda _: "ep")
        async with (
            aiohttp.ClientSession(middlewares=[guarded, three_times]) as session,
            session.get(endpoint.url) as response,
        ):
            await response.read()
        return await breakers.inspect("ep")

    assert asyncio.run(ask()).totals.ok == 1
    assert len(endpoint.paths) == 3


def test_middleware_takes_breakers_for_asyncio(store: MemoryStore) -> None:
    """Breakers for threads are refused with a sentence."""
    wrong: Any = Breakers(store)
    with pytest.raises(InvalidInput, match="breaker_middleware runs on asyncio and takes AsyncBreakers, got "):
        breaker_middleware(wrong, key=lambda _: "ep")
