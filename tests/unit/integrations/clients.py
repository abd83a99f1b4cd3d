"""The guarded clients behind one small interface, so that each claim about all of them is written once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol

import aiohttp
import httpx
import requests

from hookfuse import AsyncBreakers, Breakers, Policy, Snapshot
from hookfuse.integrations.aiohttp import breaker_middleware
from hookfuse.integrations.httpx import AsyncBreakerTransport, BreakerTransport
from hookfuse.integrations.requests import BreakerAdapter
from hookfuse.stores.memory import MemoryStore

Then = Callable[[], None]


def nothing() -> None: ...


class Client(Protocol):
    """Follows redirects; `get` returns the status and calls `before_body` between the headers and the body."""

    any_error: type[Exception]
    connection_error: type[Exception]
    when_nobody_listens: str
    is_closed: Callable[[Any], bool]

    def __init__(self, store: MemoryStore, policy: Policy, **options: Any) -> None: ...
    def get(self, url: str, before_body: Then = nothing) -> int: ...
    def inspect(self, key: str) -> Snapshot: ...
    def close(self) -> None: ...


class AsyncClient(Client, Protocol):
    def cancel(self, url: str, once: Then) -> None:
        """Cancel a request as soon as `once`, which may wait, has returned."""
        ...


class HttpxClient:
    any_error: type[Exception] = httpx.TransportError
    connection_error: type[Exception] = httpx.ConnectError
    when_nobody_listens = "ConnectError"
    is_closed: Callable[[Any], bool] = attrgetter("is_closed")

    def __init__(self, store: MemoryStore, policy: Policy, **options: Any) -> None:
        self._breakers = Breakers(store, policy=policy)
        transport = BreakerTransport(self._breakers, **options)
        self._client = httpx.Client(transport=transport, follow_redirects=True)

    def get(self, url: str, before_body: Then = nothing) -> int:
        with self._client.stream("GET", url) as response:
            before_body()
            assert response.read() == b"body"
        return response.status_code

    def inspect(self, key: str) -> Snapshot:
        return self._breakers.inspect(key)

    def close(self) -> None:
        self._client.close()


class RequestsClient:
    any_error: type[Exception] = requests.RequestException
    connection_error: type[Exception] = requests.ConnectionError
    when_nobody_listens = "ConnectionError"
    is_closed: Callable[[Any], bool] = attrgetter("raw.closed")

    def __init__(self, store: MemoryStore, policy: Policy, **options: Any) -> None:
        self._breakers = Breakers(store, policy=policy)
        self._session = requests.Session()
        self._session.mount("http://", BreakerAdapter(self._breakers, **options))

    def get(self, url: str, before_body: Then = nothing) -> int:
        with self._session.get(url, stream=True) as response:
            before_body()
            assert response.content == b"body"
        return response.status_code

    def inspect(self, key: str) -> Snapshot:
        return self._breakers.inspect(key)

    def close(self) -> None:
        self._session.close()


class _OnLoop:
    """Runs the coroutines of an asyncio client for a test that is a plain function."""

    _breakers: AsyncBreakers

    def __init__(self, store: MemoryStore, policy: Policy, **options: Any) -> None:
        self._runner = asyncio.Runner()
        self._breakers = AsyncBreakers(store, policy=policy)
        try:
            self._runner.run(self._open(options))
        except BaseException:
            self._runner.close()
            raise

    def get(self, url: str, before_body: Then = nothing) -> int:
        return self._runner.run(self._get(url, before_body))

    def cancel(self, url: str, once: Then) -> None:
        async def start_and_cancel() -> None:
            task = asyncio.create_task(self._get(url, nothing))
            await asyncio.to_thread(once)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

        self._runner.run(start_and_cancel())

    def inspect(self, key: str) -> Snapshot:
        return self._runner.run(self._breakers.inspect(key))

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _open(self, options: dict[str, Any]) -> None:
        raise NotImplementedError

    async def _get(self, url: str, before_body: Then) -> int:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError


class AsyncHttpxClient(_OnLoop):
    any_error: type[Exception] = httpx.TransportError
    connection_error: type[Exception] = httpx.ConnectError
    when_nobody_listens = "ConnectError"
    is_closed: Callable[[Any], bool] = attrgetter("is_closed")

    async def _open(self, options: dict[str, Any]) -> None:
        transport = AsyncBreakerTransport(self._breakers, **options)
        self._client = httpx.AsyncClient(transport=transport, follow_redirects=True)

    async def _get(self, url: str, before_body: Then) -> int:
        async with self._client.stream("GET", url) as response:
            before_body()
            assert await response.aread() == b"body"
        return response.status_code

    async def _close(self) -> None:
        await self._client.aclose()


class AiohttpClient(_OnLoop):
    any_error: type[Exception] = aiohttp.ClientError
    connection_error: type[Exception] = aiohttp.ClientConnectionError
    when_nobody_listens = "ClientConnectorError"
    is_closed: Callable[[Any], bool] = attrgetter("closed")

    async def _open(self, options: dict[str, Any]) -> None:
        self._session = aiohttp.ClientSession(middlewares=[breaker_middleware(self._breakers, **options)])

    async def _get(self, url: str, before_body: Then) -> int:
        async with self._session.get(url) as response:
            before_body()
            assert await response.read() == b"body"
        return response.status

    async def _close(self) -> None:
        await self._session.close()


ASYNC: dict[str, type[AsyncClient]] = {"httpx async": AsyncHttpxClient, "aiohttp": AiohttpClient}
ALL: dict[str, type[Client]] = {"httpx": HttpxClient, "requests": RequestsClient, **ASYNC}
