"""Sends requests: finds the host, vets its addresses, keeps connections, and holds one deadline over it all."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from time import monotonic
from typing import TypeVar

from hookfuse.core.addresses import PUBLIC, Networks
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request, SendResult, Trouble
from hookfuse.transport.connection import Answered, Connection
from hookfuse.transport.dialer import Dialer
from hookfuse.transport.guard import find, vet
from hookfuse.transport.limits import Limits
from hookfuse.transport.message import request_bytes
from hookfuse.transport.pool import Pool, Route
from hookfuse.transport.proxy import Proxy
from hookfuse.transport.resolver import NOT_ASKED, DnsResolver, Resolver
from hookfuse.transport.troubles import CLOSED, Failure

T = TypeVar("T")


class HttpSender:
    """Posts over HTTP/1.1 to public addresses, and to those that `networks` allows.

    It belongs to the event loop in which it first sends, and closes its resolver with itself. Redirects are not
    followed, cookies are not kept, bodies are not decompressed, and no proxy is taken from the environment.
    """

    def __init__(
        self,
        networks: Networks = PUBLIC,
        *,
        limits: Limits | None = None,
        proxy: Proxy | None = None,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._networks = networks
        self._limits = limits or Limits()
        self._resolver = resolver or DnsResolver()
        self._dialer = Dialer(self._limits, self._resolver, proxy, ssl_context)
        self._pool: Pool | None = None
        self._closed = False

    @property
    def networks(self) -> Networks:
        return self._networks

    @networks.setter
    def networks(self, networks: Networks) -> None:
        """Takes effect at the next send, also for kept connections."""
        self._networks = networks
        if self._pool is not None:
            self._pool.expire()

    @property
    def connections(self) -> int:
        """How many are open, idle or at work."""
        return 0 if self._pool is None else self._pool.open

    async def send(self, request: Request) -> SendResult:
        """Send one request. Whatever goes wrong on the way is in the result."""
        started = monotonic()
        data = request_bytes(request)
        pool = self._pool
        if pool is None:
            pool = self._pool = Pool(asyncio.get_running_loop(), self._limits, self._dialer.sessions)
        route = pool.fresh(request.destination, started)
        connection = None if route is None or request.anew else pool.take(route)
        if route is not None and connection is not None:
            result = await self._exchange(pool, route, connection, data, started, started + request.timeout)
            if result is not None:
                return result
        return await self._send_anew(pool, request, data, started)

    def send_at_once(
        self, destination: Destination, make: Callable[[], Request], answered: Answered
    ) -> Callable[[], None] | None:
        """Send on a kept connection, and have `answered` called, with None if the request has to be sent anew.

        Returns what gives the request up, or None if there is no connection. `make` is called only if there is one.
        """
        pool, started = self._pool, monotonic()
        route = None if pool is None else pool.fresh(destination, started)
        if pool is None or route is None or not route.idle:
            return None
        request = make()
        data = request_bytes(request)
        connection = pool.take(route)
        if connection is None:
            return None

        def answer(result: SendResult | None) -> None:
            pool.give_back(route, connection)
            answered(result)

        connection.exchange(data, started, started + request.timeout, answer)
        return connection.abort

    async def close(self) -> None:
        """End every connection; requests under way end with a trouble of our own."""
        self._closed = True
        await self._resolver.close()
        if self._pool is not None:
            await self._pool.close()

    async def _exchange(
        self, pool: Pool, route: Route, connection: Connection, data: bytes, started: float, deadline: float
    ) -> SendResult | None:
        answer = pool.future()
        connection.exchange(data, started, deadline, partial(_tell, answer))
        try:
            result = await answer
        except BaseException:
            connection.abort()
            raise
        pool.give_back(route, connection)
        return result

    async def _send_anew(self, pool: Pool, request: Request, data: bytes, started: float) -> SendResult:
        """Send on a new connection."""
        left = request.timeout - (monotonic() - started)
        route = await _in_time(self._find(pool, request.destination), left, "the name was resolved")
        if isinstance(route, Failure):
            if route.exhausted:
                pool.shed()
            in_line = route.trouble is Trouble.TIMEOUT and not self._resolver.asked(request.destination.host)
            return _failed(NOT_ASKED if in_line else route, started)
        left = request.timeout - (monotonic() - started)
        dialling = self._dialer.dial(request.destination, route.addresses, self._networks, pool)
        connection = await _in_time(dialling, left, "there was a connection")
        if isinstance(connection, Failure):
            if connection.exhausted:
                pool.shed()
            return _failed(connection, started)
        if self._closed or not connection.reusable:
            connection.abort()
            lost = Failure(Trouble.DISCONNECTED, "The connection was closed before the request.")
            return _failed(CLOSED if self._closed else lost, started)
        result = await self._exchange(pool, route, connection, data, started, started + request.timeout)
        assert result is not None, "only a connection that was used before can turn out to be closed"
        # What a connection tells of itself is read once, so that kept ones pay nothing for it.
        connection.heed(self._limits.idle_longest)
        # A route without addresses was dropped in the meantime, and so must be what this exchange could tell of it.
        keep = result.status is not None and bool(route.addresses)
        self._dialer.used(request.destination, connection, keep=keep)
        return result

    async def _find(self, pool: Pool, destination: Destination) -> Route | Failure:
        """The route to a destination, looked up and vetted now."""
        if self._closed:
            return CLOSED
        answer = vet(await find(destination, self._resolver), destination.port, self._networks)
        if answer.failure is not None:
            if answer.failure.trouble is Trouble.BLOCKED:
                pool.forget(destination)
            return answer.failure
        return pool.found(destination, answer.addresses, answer.until)


def _tell(waiting: asyncio.Future[SendResult | None], result: SendResult | None) -> None:
    if not waiting.done():
        waiting.set_result(result)


async def _in_time(step: Awaitable[T], left: float, before: str) -> T | Failure:
    try:
        async with asyncio.timeout(left):
            return await step
    except TimeoutError:
        return Failure(Trouble.TIMEOUT, f"The deadline passed before {before}.")


def _failed(failure: Failure, started: float) -> SendResult:
    return SendResult(None, failure.trouble, monotonic() - started, detail=failure.detail)
