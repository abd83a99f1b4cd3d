"""Breakers inside aiohttp: a client middleware.

    breakers = AsyncBreakers(policy=Policy(trip=Streak(5), cool_off=30))
    middleware = breaker_middleware(breakers, key=lambda request: request.url.host)
    async with aiohttp.ClientSession(middlewares=[middleware]) as session:
        async with session.get("https://example.com/") as response:
            ...    # refused: aiohttp.ClientConnectionError, which is also a BreakerOpen

The latency of a call ends when the headers have arrived, and so does what a breaker sees of it: a body that
breaks later is not counted. What the middlewares after this one do is inside one call. When a connection breaks,
aiohttp itself sends an idempotent request once more, outside of all middlewares: those are two calls.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TypeAlias

import aiohttp

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.outcome import Outcome
from hookfuse.errors import BreakerOpen
from hookfuse.integrations._judging import check_setup, judge, read_answer, refusals_as

__all__ = ["CallRefused", "breaker_middleware", "classify_response"]

KeyOf: TypeAlias = Callable[[aiohttp.ClientRequest], str | None]
Classify: TypeAlias = Callable[[aiohttp.ClientResponse], Outcome]


class CallRefused(aiohttp.ClientConnectionError, BreakerOpen):
    """The breaker refused the request and nothing was sent."""


def classify_response(response: aiohttp.ClientResponse) -> Outcome:
    """2xx is OK, 429 and 503 with a Retry-After are throttled, a redirect counts nothing, the rest is FAILURE."""
    return read_answer(response.status, response.headers)


def breaker_middleware(
    breakers: AsyncBreakers, *, key: KeyOf, classify: Classify = classify_response
) -> aiohttp.ClientMiddlewareType:
    """For aiohttp.ClientSession. A request whose `key` is None is not guarded; `classify` judges a response not yet
    read. A cancelled request gives its admission back; one that ran into the session's timeout is a FAILURE.
    """
    check_setup("breaker_middleware", AsyncBreakers, breakers, key, classify)

    async def guarded(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        name = key(request)
        if name is None:
            return await handler(request)
        with ExitStack() as undo:
            with refusals_as(CallRefused):
                async with breakers.guard(name) as call:
                    with _timeout_of(request):
                        response = await handler(request)
                    undo.callback(response.close)
                    judge(call, classify, response, response.status)
            undo.pop_all()
        return response

    return guarded


def _timeout_of(request: aiohttp.ClientRequest) -> AbstractContextManager[object]:
    """What turns the cancel by which aiohttp enforces its total timeout into a TimeoutError.

    aiohttp does so outside of all middlewares too; in here, an endpoint that never lets us connect would look like
    a caller who changed their mind.
    """
    timer: AbstractContextManager[object] = getattr(request, "_timer", nullcontext())
    return timer
