"""Hosts that were found, and connections that wait for their next request.

A route is remembered as long as its addresses are fresh. When it is found again, connections to addresses that it no
longer has are closed, so that a kept connection never leads elsewhere than a new one would.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from math import inf
from time import monotonic
from typing import Final, TypeAlias

from hookfuse.core.addresses import Address
from hookfuse.core.destination import Destination
from hookfuse.core.sending import SendResult
from hookfuse.transport.connection import Connection
from hookfuse.transport.limits import Limits
from hookfuse.transport.sessions import Sessions
from hookfuse.transport.troubles import CLOSED

_PATIENCE: Final = 1.0
_SWEEPS_APART: Final = 0.5
_LOOKS_APART: Final = 0.02
_ENDS_APART: Final = 0.002
_ALL_ENDED_IN: Final = 0.1
"""Seconds. What the end of a request that hung leads to (a record, a settlement, the next request on a new connection)
takes ten times as long as a healthy request. Where many hang they tend to end together, and healthy ones go between."""

RouteKey: TypeAlias = tuple[bool, str, int]


class Route:
    """A host and port, its vetted addresses, and its idle connections (the last used at the end)."""

    __slots__ = ("addresses", "fresh_until", "idle")

    def __init__(self) -> None:
        self.addresses: tuple[Address, ...] = ()
        self.fresh_until = -inf
        self.idle: list[Connection] = []


class Pool:
    """Routes by host and port, and every open connection."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limits: Limits, sessions: Sessions) -> None:
        self._loop = loop
        self._limits = limits
        self._sessions = sessions
        self._routes: OrderedDict[RouteKey, Route] = OrderedDict()
        self._idle: OrderedDict[Connection, Route] = OrderedDict()
        self._open: set[Connection] = set()
        self._overdue: list[Connection] = []
        self._ends_apart = 0.0
        self.next_deadline = inf
        self.buffer = memoryview(bytearray(limits.response_bytes))
        self._watcher: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._emptied: asyncio.Future[None] | None = None

    @property
    def open(self) -> int:
        """How many connections there are, idle or not."""
        return len(self._open)

    def fresh(self, destination: Destination, now: float) -> Route | None:
        """The route to a destination, if its addresses need not be looked up."""
        route = self._routes.get((destination.tls, destination.host, destination.port))
        return route if route is not None and route.fresh_until > now else None

    def found(self, destination: Destination, addresses: tuple[Address, ...], fresh_until: float) -> Route:
        """Remember where a destination is."""
        key = (destination.tls, destination.host, destination.port)
        route = self._routes.setdefault(key, Route())
        self._routes.move_to_end(key)
        route.addresses = addresses
        route.fresh_until = fresh_until
        for connection in [kept for kept in route.idle if kept.address not in addresses]:
            self._abort_idle(connection)
        if len(self._routes) > self._limits.hosts:
            self._drop(*self._routes.popitem(last=False))
        return route

    def forget(self, destination: Destination) -> None:
        """Keep nothing of a destination that must not be dialled."""
        key = (destination.tls, destination.host, destination.port)
        route = self._routes.pop(key, None)
        if route is not None:
            self._drop(key, route)

    def expire(self) -> None:
        """Let every destination be looked up and vetted anew before it is used again."""
        for route in self._routes.values():
            route.fresh_until = -inf

    def take(self, route: Route) -> Connection | None:
        """An idle connection of a route, the last used first."""
        while route.idle:
            connection = route.idle.pop()
            del self._idle[connection]
            if connection.reusable:
                return connection
        return None

    def give_back(self, route: Route, connection: Connection) -> None:
        """Keep a connection for the next request, or close it."""
        idle = route.idle
        if (
            not connection.reusable
            or connection.address not in route.addresses
            or len(idle) >= self._limits.idle_per_host
            or self._emptied is not None
        ):
            connection.abort()
            return
        connection.idle_since = monotonic()
        idle.append(connection)
        self._idle[connection] = route
        if len(self._idle) > self._limits.idle_total:
            self._abort_idle(next(iter(self._idle)))
        if self._sweeper is None:
            self._sweep_soon()

    def shed(self) -> None:
        """Close every idle connection: file descriptors are short."""
        for connection in list(self._idle):
            self._abort_idle(connection)

    async def close(self) -> None:
        """End everything, and return when every connection is closed."""
        for timer in (self._sweeper, self._watcher):
            if timer is not None:
                timer.cancel()
        self._emptied = self._loop.create_future()
        self._routes.clear()
        if self._open:
            for connection in list(self._open):
                connection.fail(CLOSED)
            # Closing at once takes a few turns of the loop. Whatever goes wrong with it must not hold up an exit.
            await asyncio.wait([self._emptied], timeout=_PATIENCE)

    def watch(self, deadline: float) -> None:
        """Look at all deadlines when this one is over. A timer for each request would be a tenth of what it costs."""
        if self._watcher is not None:
            self._watcher.cancel()
        self.next_deadline = deadline
        self._watcher = self._loop.call_later(max(0.0, deadline - monotonic()), self._expire)

    def _expire(self) -> None:
        self._watcher, self.next_deadline = None, inf
        now = monotonic()
        if not self._overdue:
            self._loop.call_soon(self._expire_one)
        self._overdue = [each for each in self._open if each.deadline <= now]
        self._ends_apart = min(_ENDS_APART, _ALL_ENDED_IN / max(1, len(self._overdue)))
        # Where many hang, one look serves those that end soon after one another.
        later = min((each.deadline for each in self._open if each.deadline > now), default=inf)
        if later < inf:
            self.watch(max(later, now + _LOOKS_APART))

    def _expire_one(self) -> None:
        while self._overdue:
            connection = self._overdue.pop()
            # It may have been answered by now, or ended together with another.
            if connection.deadline <= monotonic():
                if self._overdue:
                    self._loop.call_later(self._ends_apart, self._expire_one)
                connection.expire()
                return

    def future(self) -> asyncio.Future[SendResult | None]:
        return self._loop.create_future()

    def opened(self, connection: Connection) -> None:
        self._open.add(connection)

    def lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.pop(connection).idle.remove(connection)
        if not self._open and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _abort_idle(self, connection: Connection) -> None:
        self._idle.pop(connection).idle.remove(connection)
        connection.abort()

    def _drop(self, key: RouteKey, route: Route) -> None:
        self._sessions.forget(*key[1:])
        # Without addresses, connections that are still at work are closed when they come back.
        route.addresses = ()
        for connection in list(route.idle):
            self._abort_idle(connection)

    def _sweep(self) -> None:
        self._sweeper = None
        now = monotonic()
        for connection in [each for each in self._idle if each.idle_since + each.idle_seconds <= now]:
            self._abort_idle(connection)
        if self._idle:
            self._sweep_soon()

    def _sweep_soon(self) -> None:
        # Some may stay although others leave at once.
        apart = min(max(self._limits.idle_seconds / 2, _LOOKS_APART), _SWEEPS_APART)
        self._sweeper = self._loop.call_later(apart, self._sweep)
