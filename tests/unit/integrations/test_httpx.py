"""What is particular to httpx."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from hookfuse import AsyncBreakers, BreakerOpen, Breakers, Outcome, Policy, State
from hookfuse.errors import InvalidInput
from hookfuse.integrations.httpx import AsyncBreakerTransport, BreakerTransport, CallRefused
from hookfuse.stores.memory import MemoryStore
from hookfuse.testing import ManualClock
from tests.unit.integrations.endpoint import Endpoint, unused_url


@pytest.fixture
def breakers(store: MemoryStore, policy: Policy) -> Breakers:
    return Breakers(store, policy=policy)


@pytest.fixture
def async_breakers(store: MemoryStore, policy: Policy) -> AsyncBreakers:
    return AsyncBreakers(store, policy=policy)


def by_host(request: httpx.Request) -> str:
    return request.url.host


def test_refusal_has_the_request(breakers: Breakers, endpoint: Endpoint) -> None:
    """A refusal names its request, even where no client sets it."""
    breakers.force_open("127.0.0.1")
    request = httpx.Request("GET", endpoint.url)
    with BreakerTransport(breakers, key=by_host) as transport, pytest.raises(httpx.ConnectError) as caught:
        transport.handle_request(request)
    assert caught.value.request is request


def test_retries_of_the_transport_count_once(breakers: Breakers) -> None:
    """However often the wrapped transport tries to connect, it is one call."""
    transport = BreakerTransport(breakers, key=by_host, transport=httpx.HTTPTransport(retries=1))
    with httpx.Client(transport=transport) as client, pytest.raises(httpx.ConnectError):
        client.get(unused_url())
    assert breakers.inspect("127.0.0.1").totals.failed == 1


def test_full_pool_counts_nothing(breakers: Breakers, endpoint: Endpoint) -> None:
    """Waiting in vain for a connection of our own pool is not held against the endpoint."""
    inner = httpx.HTTPTransport(limits=httpx.Limits(max_connections=1))
    transport = BreakerTransport(breakers, key=by_host, transport=inner)
    timeout = httpx.Timeout(10, pool=0.01)
    with httpx.Client(transport=transport, timeout=timeout) as client, client.stream("GET", endpoint.url):
        with pytest.raises(httpx.PoolTimeout):
            client.get(endpoint.url)
        assert breakers.inspect("127.0.0.1").totals == (1, 0, 0)


def test_full_pool_counts_nothing_on_asyncio(async_breakers: AsyncBreakers, endpoint: Endpoint) -> None:
    """The same on asyncio."""

    async def fill_pool() -> None:
        inner = httpx.AsyncHTTPTransport(limits=httpx.Limits(max_connections=1))
        transport = AsyncBreakerTransport(async_breakers, key=by_host, transport=inner)
        timeout = httpx.Timeout(10, pool=0.01)
        client = httpx.AsyncClient(transport=transport, timeout=timeout)
        async with client, client.stream("GET", endpoint.url):
            with pytest.raises(httpx.PoolTimeout):
                await client.get(endpoint.url)
            assert (await async_breakers.inspect("127.0.0.1")).totals == (1, 0, 0)

    asyncio.run(fill_pool())


def test_timeout_is_a_failure(breakers: Breakers, endpoint: Endpoint) -> None:
    """A request that runs into the client's own timeout is a failure with its class kept."""
    endpoint.hang()
    transport = BreakerTransport(breakers, key=by_host)
    with httpx.Client(transport=transport, timeout=0.05) as client, pytest.raises(httpx.ReadTimeout):
        client.get(endpoint.url)
    assert [failure.type for failure in breakers.inspect("127.0.0.1").failures] == ["ReadTimeout"]


def test_classify_sees_the_request(breakers: Breakers, endpoint: Endpoint) -> None:
    """`classify` can judge by what was asked for, too."""
    seen: list[str] = []

    def classify(response: httpx.Response) -> Outcome:
        seen.append(response.request.url.path)
        return Outcome.OK

    with httpx.Client(transport=BreakerTransport(breakers, key=by_host, classify=classify)) as client:
        client.get(f"{endpoint.url}/asked")
    assert seen == ["/asked"]


def test_any_transport_can_be_wrapped(breakers: Breakers) -> None:
    """The wrapped transport may be one that opens no connection at all, and is opened and closed with ours."""
    steps: list[str] = []

    class Inner(httpx.MockTransport):
        def __enter__(self) -> Inner:
            steps.append("enter")
            return self

        def close(self) -> None:
            steps.append("close")

    inner = Inner(lambda request: httpx.Response(200, text="made up"))
    with httpx.Client(transport=BreakerTransport(breakers, key=by_host, transport=inner)) as client:
        assert client.get("http://nowhere.test").text == "made up"
    assert steps == ["enter", "close"]
    assert breakers.inspect("nowhere.test").totals.ok == 1


def test_refusal_of_an_inner_breaker_counts_nothing(breakers: Breakers, clock: ManualClock) -> None:
    """Of two nested breakers, what the inner one refuses is no failure of the outer one."""
    strict = Breakers(MemoryStore(clock=clock))
    strict.force_open("host")
    inner = BreakerTransport(strict, key=lambda _: "host")
    outer = BreakerTransport(breakers, key=lambda _: "account", transport=inner)
    with httpx.Client(transport=outer) as client, pytest.raises(CallRefused) as caught:
        client.get("http://nowhere.test")
    assert caught.value.key == "host"
    assert breakers.inspect("account").totals == (0, 0, 0)


def test_concurrent_requests_get_one_probe(
    async_breakers: AsyncBreakers, endpoint: Endpoint, clock: ManualClock
) -> None:
    """Of many requests at the moment when the probe is due, one is sent and the others are refused."""

    async def rush() -> None:
        async with httpx.AsyncClient(transport=AsyncBreakerTransport(async_breakers, key=by_host)) as client:
            endpoint.answer(500)
            for _ in range(2):
                await client.get(endpoint.url)
            endpoint.answer(200)
            endpoint.hang()
            clock.advance(30)
            *refused, probe = asyncio.as_completed([client.get(endpoint.url) for _ in range(10)])
            for answer in refused:
                with pytest.raises(BreakerOpen):
                    await answer
            endpoint.release()
            assert (await probe).status_code == 200
            assert (await async_breakers.inspect("127.0.0.1")).state is State.CLOSED

    asyncio.run(rush())
    assert len(endpoint.paths) == 3


def test_each_transport_takes_breakers_of_its_face(breakers: Breakers, async_breakers: AsyncBreakers) -> None:
    """Breakers for threads in an asyncio transport, or the other way round, are refused with a sentence."""
    wrong: Any = async_breakers
    with pytest.raises(InvalidInput, match="BreakerTransport runs in threads and takes Breakers, got "):
        BreakerTransport(wrong, key=by_host)
    wrong = breakers
    with pytest.raises(InvalidInput, match="AsyncBreakerTransport runs on asyncio and takes AsyncBreakers, got "):
        AsyncBreakerTransport(wrong, key=by_host)


def test_each_transport_wraps_one_of_its_face(breakers: Breakers, async_breakers: AsyncBreakers) -> None:
    """A transport of the other face cannot be wrapped."""
    wrong: Any = httpx.AsyncBaseTransport()
    with pytest.raises(InvalidInput, match="transport must be one that has handle_request, got "):
        BreakerTransport(breakers, key=by_host, transport=wrong)
    wrong = httpx.BaseTransport()
    with pytest.raises(InvalidInput, match="transport must be one that has handle_async_request, got "):
        AsyncBreakerTransport(async_breakers, key=by_host, transport=wrong)
