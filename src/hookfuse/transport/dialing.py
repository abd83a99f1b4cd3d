"""Opening connections, and the last look at where they lead.

`open_socket` is the only function that connects to an endpoint. It takes an address, not a name, and asks for the
verdict itself, whatever was decided before.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from ipaddress import IPv6Address
from itertools import chain, zip_longest
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from hookfuse.core.addresses import Address, Verdict
from hookfuse.core.sending import Trouble
from hookfuse.transport.limits import RECEIVE_BYTES
from hookfuse.transport.troubles import Failure, os_failure


class Guard(Protocol):
    """Says whether an address may be dialled at a port; None: it may."""

    def verdict(self, address: Address, port: int) -> Verdict | None: ...


class Opened(NamedTuple):
    """A connected socket, and the address at its far end."""

    socket: socket.socket
    address: Address


Open: TypeAlias = Callable[[Address], Coroutine[Any, Any, Opened | Failure]]

_UNDER_WAY: Final = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR)


def blocked(verdict: Verdict) -> Failure:
    return Failure(Trouble.BLOCKED, f"The destination has an address that is not dialled ({verdict}).")


async def open_socket(address: Address, port: int, guard: Guard) -> Opened | Failure:
    """Connect to an address that may be dialled."""
    verdict = guard.verdict(address, port)
    return blocked(verdict) if verdict is not None else await connect(address, port)


async def connect(address: Address, port: int) -> Opened | Failure:
    """Connect without a look at the address: to a proxy that the operator named."""
    family = socket.AF_INET6 if isinstance(address, IPv6Address) else socket.AF_INET
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        return os_failure(error.errno, Trouble.LOCAL)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        code = sock.connect_ex((str(address), port))
        at_once = code not in _UNDER_WAY
        if not at_once:
            await _writable(sock)
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except BaseException:
        sock.close()
        raise
    if code == 0:
        return Opened(sock, address)
    sock.close()
    return os_failure(code, Trouble.CONNECT, at_once=at_once)


async def _writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    loop.add_writer(sock, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_writer(sock)


def in_turns(addresses: Iterable[Address], most: int) -> list[Address]:
    """The addresses to try: IPv6 and IPv4 by turns, so that one broken family costs one stagger."""
    six = [address for address in addresses if address.version == 6]
    four = [address for address in addresses if address.version == 4]
    return [address for address in chain.from_iterable(zip_longest(six, four)) if address is not None][:most]


async def race(addresses: list[Address], opener: Open, stagger: float) -> Opened | Failure:
    """The first connection that any address gives.

    The next address is tried when the one before has failed, or beside it when it has been silent for a while.
    """
    if len(addresses) == 1:
        return await opener(addresses[0])
    waiting = deque(addresses)
    running: set[asyncio.Task[Opened | Failure]] = set()
    failures: list[Failure] = []
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(opener(waiting.popleft())))
            done, _ = await asyncio.wait(
                running, timeout=stagger if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                running.discard(task)
                result = task.result()
                if isinstance(result, Opened):
                    return result
                failures.append(result)
    finally:
        for task in running:
            task.add_done_callback(_discard)
            task.cancel()
    return next((failure for failure in failures if not failure.trouble.ours), failures[0])


def _discard(task: asyncio.Task[Opened | Failure]) -> None:
    """Close what nobody needs any more."""
    if not task.cancelled() and task.exception() is None:
        result = task.result()
        if isinstance(result, Opened):
            result.socket.close()
