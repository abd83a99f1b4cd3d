"""Breakers inside httpx: a transport that wraps another one.

    breakers = Breakers(policy=Policy(trip=Streak(5), cool_off=30))
    transport = BreakerTransport(breakers, key=lambda request: request.url.host)
    with httpx.Client(transport=transport) as client:
        client.get("https://example.com/")    # refused: httpx.ConnectError, which is also a BreakerOpen
    # AsyncBreakers, AsyncBreakerTransport and httpx.AsyncClient go together in the same way

The latency of a call ends when the headers have arrived, and so does what a breaker sees of it: a stream that
breaks later is not counted. Retries of the wrapped transport are inside one call.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any, Self, TypeAlias

import httpx

from hookfuse.breakers import AsyncBreakers, Breakers
from hookfuse.core.outcome import Outcome
from hookfuse.errors import BreakerOpen, InvalidInput
from hookfuse.integrations._judging import check_setup, ignoring, judge, read_answer, refusals_as

__all__ = ["AsyncBreakerTransport", "BreakerTransport", "CallRefused", "classify_response"]

KeyOf: TypeAlias = Callable[[httpx.Request], str | None]
Classify: TypeAlias = Callable[[httpx.Response], Outcome]


class CallRefused(httpx.ConnectError, BreakerOpen):
    """The breaker refused the request and nothing was sent."""

    def __init__(self, *args: Any, request: httpx.Request | None = None) -> None:
        BreakerOpen.__init__(self, *args)
        self._request = request


def classify_response(response: httpx.Response) -> Outcome:
    """2xx is OK, 429 and 503 with a Retry-After are throttled, a redirect counts nothing, the rest is FAILURE."""
    return read_answer(response.status_code, response.headers)


class BreakerTransport(httpx.BaseTransport):
    """For httpx.Client. A request whose `key` is None is not guarded; `classify` judges a response not yet read."""

    def __init__(
        self,
        breakers: Breakers,
        *,
        key: KeyOf,
        transport: httpx.BaseTransport | None = None,
        classify: Classify = classify_response,
    ) -> None:
        check_setup("BreakerTransport", Breakers, breakers, key, classify)
        _check_transport(transport, "handle_request")
        self._breakers = breakers
        self._key = key
        self._transport = httpx.HTTPTransport() if transport is None else transport
        self._classify = classify

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        key = self._key(request)
        if key is None:
            return self._transport.handle_request(request)
        with ExitStack() as undo:
            with refusals_as(CallRefused, request=request), self._breakers.guard(key) as call:
                with ignoring(call, httpx.PoolTimeout):  # our pool was full, perhaps of calls to others
                    response = self._transport.handle_request(request)
                undo.callback(response.close)
                response.request = request  # as the client will do, but `classify` may want it
                judge(call, self._classify, response, response.status_code)
            undo.pop_all()
        return response

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        self._transport.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self._transport.__exit__(kind, error, trace)


class AsyncBreakerTransport(httpx.AsyncBaseTransport):
    """For httpx.AsyncClient; see `BreakerTransport`. A cancelled request gives its admission back."""

    def __init__(
        self,
        breakers: AsyncBreakers,
        *,
        key: KeyOf,
        transport: httpx.AsyncBaseTransport | None = None,
        classify: Classify = classify_response,
    ) -> None:
        check_setup("AsyncBreakerTransport", AsyncBreakers, breakers, key, classify)
        _check_transport(transport, "handle_async_request")
        self._breakers = breakers
        self._key = key
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport
        self._classify = classify

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        key = self._key(request)
        if key is None:
            return await self._transport.handle_async_request(request)
        async with AsyncExitStack() as undo:
            with refusals_as(CallRefused, request=request):
                async with self._breakers.guard(key) as call:
                    with ignoring(call, httpx.PoolTimeout):
                        response = await self._transport.handle_async_request(request)
                    undo.push_async_callback(response.aclose)
                    response.request = request
                    judge(call, self._classify, response, response.status_code)
            undo.pop_all()
        return response

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        await self._transport.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self._transport.__aexit__(kind, error, trace)


def _check_transport(transport: object, verb: str) -> None:
    if transport is not None and not callable(getattr(transport, verb, None)):
        raise InvalidInput(f"transport must be one that has {verb}, got {transport!r}.")
