"""From vetted addresses to a connection: straight or through the egress proxy, with TLS or without."""

from __future__ import annotations

import asyncio
import ssl
from functools import partial
from time import monotonic
from typing import cast

from hookfuse.core.addresses import Address, parse_address
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Trouble
from hookfuse.transport.connection import Connection, Owner
from hookfuse.transport.dialing import Guard, Opened, blocked, connect, in_turns, open_socket, race
from hookfuse.transport.limits import Limits
from hookfuse.transport.proxy import Proxy, tunnel
from hookfuse.transport.resolver import Resolver
from hookfuse.transport.sessions import Handshake, Sessions
from hookfuse.transport.tls import client_context, tls_failure
from hookfuse.transport.troubles import Failure, os_failure


class Dialer:
    def __init__(
        self, limits: Limits, resolver: Resolver, proxy: Proxy | None, ssl_context: ssl.SSLContext | None
    ) -> None:
        self._limits = limits
        self._resolver = resolver
        self._proxy = proxy
        self._ssl_context = ssl_context
        self.sessions = Sessions(limits.sessions)

    async def dial(
        self, destination: Destination, addresses: tuple[Address, ...], guard: Guard, owner: Owner
    ) -> Connection | Failure:
        """A connection to one of the addresses."""
        began = monotonic()
        opened = await self.open(addresses, destination.port, guard)
        if isinstance(opened, Failure):
            return opened
        connecting = monotonic() - began
        handshake = self._handshake(destination) if destination.tls else None
        connection = Connection(self._limits, opened.address, owner, connecting, handshake)
        return await self._hand_over(opened, connection, destination, owner)

    def used(self, destination: Destination, connection: Connection, *, keep: bool) -> None:
        """Learn from the first exchange of a connection how to resume its session, or that it is not to be kept."""
        handshake, connection.handshake = connection.handshake, None
        if handshake is None or not self._limits.sessions:
            return
        if keep:
            self.sessions.keep(destination.host, destination.port, handshake.session())
        else:
            # It may have been the session that the server could not go on with.
            self.sessions.forget(destination.host, destination.port)

    async def open(self, addresses: tuple[Address, ...], port: int, guard: Guard) -> Opened | Failure:
        """A socket to one of the addresses, for whoever does not speak HTTP."""
        if self._proxy is None:
            opener = partial(open_socket, port=port, guard=guard)
        else:
            opener = partial(self._open_through, self._proxy, port=port, guard=guard)
        return await race(in_turns(addresses, self._limits.addresses), opener, self._limits.stagger)

    async def _hand_over(
        self, opened: Opened, connection: Connection, destination: Destination, owner: Owner
    ) -> Connection | Failure:
        """Give a socket to the event loop, which closes it from here on."""
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: connection,
                sock=opened.socket,
                ssl=cast("ssl.SSLContext | None", connection.handshake),
                server_hostname=destination.host if destination.tls else None,
            )
        except BaseException as error:
            self.sessions.forget(destination.host, destination.port)
            if isinstance(error, OSError):
                return tls_failure(error) if destination.tls else os_failure(error.errno, Trouble.CONNECT)
            # Cancelled here, uvloop closes the socket without a word to a connection that was already made.
            owner.lost(connection)
            raise
        return connection

    def _handshake(self, destination: Destination) -> Handshake:
        # Reading the system's roots takes a while, so only who needs them waits for it.
        if self._ssl_context is None:
            self._ssl_context = client_context()
        return Handshake(self._ssl_context, self.sessions.of(destination.host, destination.port))

    async def _open_through(self, proxy: Proxy, address: Address, *, port: int, guard: Guard) -> Opened | Failure:
        verdict = guard.verdict(address, port)
        if verdict is not None:
            return blocked(verdict)
        opened = await self._open_proxy(proxy)
        if isinstance(opened, Failure):
            return opened
        try:
            failure = await tunnel(opened.socket, proxy, address, port)
        except BaseException:
            opened.socket.close()
            raise
        if failure is not None:
            opened.socket.close()
            return failure
        return Opened(opened.socket, address)

    async def _open_proxy(self, proxy: Proxy) -> Opened | Failure:
        literal = parse_address(proxy.host)
        addresses = (literal,) if literal else (await self._resolver.lookup(proxy.host)).addresses
        if addresses:
            opened = await race(
                in_turns(addresses, self._limits.addresses), partial(connect, port=proxy.port), self._limits.stagger
            )
            if isinstance(opened, Opened) or opened.exhausted:
                return opened
        return Failure(Trouble.LOCAL, "The egress proxy cannot be reached.")
