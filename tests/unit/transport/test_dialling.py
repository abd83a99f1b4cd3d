"""Connecting: whose fault a failure is, the next address, the deadline in each phase, and cancelling in each."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from ipaddress import IPv4Address
from statistics import median
from time import monotonic

import pytest
import trustme

from hookfuse.core.sending import Request, Trouble
from hookfuse.transport import DnsResolver, HttpSender, Limits
from hookfuse.transport.troubles import os_failure
from tests.servers.ports import free_port
from tests.unit.transport.certificates import serving, trusting
from tests.unit.transport.full import full_port
from tests.unit.transport.nameserver import naming
from tests.unit.transport.receiver import (
    LOOPBACK,
    OK,
    Receiver,
    answering,
    receiving,
    request,
    silent,
    until,
)

SLACK = 0.5


async def test_a_refused_connection_is_the_endpoints() -> None:
    """Nobody listening is a failure of the endpoint."""
    sender = HttpSender(LOOPBACK)
    result = await sender.send(request(f"http://127.0.0.1:{free_port()}/"))
    await sender.close()
    assert (result.status, result.trouble) == (None, Trouble.CONNECT)
    assert "refused" in result.detail


@pytest.mark.parametrize(
    ("name", "at_once", "trouble"),
    [
        *((name, False, Trouble.LOCAL) for name in ("EMFILE", "ENFILE", "ENOBUFS", "ENOMEM", "EADDRNOTAVAIL")),
        *((name, True, Trouble.LOCAL) for name in ("ENETDOWN", "EACCES", "EPERM", "ENETUNREACH")),
        *((name, True, Trouble.CONNECT) for name in ("ECONNREFUSED", "EHOSTUNREACH", "ECONNRESET", "ETIMEDOUT")),
        ("ENETUNREACH", False, Trouble.CONNECT),
    ],
)
def test_each_error_has_its_owner(name: str, at_once: bool, trouble: Trouble) -> None:
    """What this machine lacks is our fault; what the far end or the way does is the endpoint's."""
    assert os_failure(getattr(errno, name), Trouble.CONNECT, at_once=at_once).trouble is trouble


@contextmanager
def no_more_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # New descriptors get the lowest free number, so up to the highest in use every gap is closed first.
    highest = max(map(int, os.listdir("/proc/self/fd"))) + 1
    gaps: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest, hard))
    try:
        while True:
            try:
                gaps.append(os.dup(0))
            except OSError:
                break
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for gap in gaps:
            os.close(gap)


async def test_without_file_descriptors_the_trouble_is_ours() -> None:
    """Out of descriptors, kept connections still work, a new one is a trouble of our own, and idle ones are let go."""
    async with naming(hook_test=["127.0.0.1"]) as names, receiving(answering(OK)) as receiver:
        sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}))
        assert (await sender.send(request(receiver.url()))).status == 200
        with no_more_descriptors():
            assert (await sender.send(request(receiver.url()))).status == 200
            by_name = await sender.send(request(receiver.url(host="hook.test")))
            assert sender.connections == 1
            by_address = await sender.send(request(receiver.url(host="127.0.0.2")))
            await until(lambda: sender.connections == 0)
        assert by_name.trouble is by_address.trouble is Trouble.LOCAL
        assert (await sender.send(request(receiver.url(host="hook.test")))).status == 200
        await sender.close()


async def test_a_look_up_without_a_descriptor_lets_idle_connections_go() -> None:
    """Where it is the look-up that lacks a descriptor, idle connections are let go, and the next one is made."""
    keeping = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: timeout=60\r\n\r\n"
    async with naming(hook_test=["127.0.0.1"]) as names, receiving(answering(keeping)) as receiver:
        sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}))
        await asyncio.gather(*(sender.send(request(receiver.url())) for _ in range(4)))
        with no_more_descriptors():
            result = await sender.send(request(receiver.url(host="hook.test")))
            assert result.trouble is Trouble.LOCAL
            await until(lambda: sender.connections == receiver.open == 0)
            assert (await sender.send(request(receiver.url(host="hook.test")))).status == 200
        await sender.close()


async def test_the_other_family_is_tried_when_one_refuses() -> None:
    """An address that refuses costs nothing if another one answers."""
    async with naming(hook_test=["127.0.0.1", "::1"]) as names, receiving(answering(OK)) as receiver:
        sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}))
        result = await sender.send(request(receiver.url(host="hook.test")))
        assert (result.status, receiver.connections) == (200, 1)
        await sender.close()


async def test_the_other_family_is_tried_beside_one_that_is_silent() -> None:
    """An address that says nothing costs a stagger, and its attempt is dropped once another has answered."""
    with full_port("::1") as port:
        async with naming(hook_test=["127.0.0.1", "::1"]) as names, receiving(answering(OK), port=port) as receiver:
            sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}), limits=Limits(stagger=0.1))
            result = await sender.send(request(receiver.url(host="hook.test")))
            assert result.status == 200
            assert 0.1 <= result.latency < 0.1 + SLACK
            await sender.close()


async def test_no_more_addresses_are_tried_than_the_limit() -> None:
    """Of many addresses a few are tried, and their failure is the result."""
    names = {"many.test": tuple(IPv4Address(f"127.0.0.{last}") for last in range(2, 40))}
    sender = HttpSender(LOOPBACK, resolver=DnsResolver([("127.0.0.1", 1)], hosts=names), limits=Limits(addresses=2))
    async with receiving(answering(OK), host="127.0.0.4") as third:
        result = await sender.send(request(third.url(host="many.test")))
        assert (result.trouble, third.connections) == (Trouble.CONNECT, 0)
        await sender.close()


async def stuck(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Take a connection and read nothing from it."""
    receiver.arrived.set()
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(60)


@asynccontextmanager
async def hanging_in(phase: str) -> AsyncIterator[tuple[HttpSender, Request]]:
    """A request that never gets beyond a phase."""
    async with AsyncExitStack() as stack:
        names = await stack.enter_async_context(naming())
        names.hanging.add("hook.test")
        sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}))
        if phase == "dns":
            yield sender, request("http://hook.test/", timeout=0.4)
        elif phase == "connect":
            port = stack.enter_context(full_port())
            yield sender, request(f"http://127.0.0.1:{port}/", timeout=0.4)
        else:
            receiver = await stack.enter_async_context(receiving(silent if phase == "response" else stuck))
            scheme = "https" if phase == "tls" else "http"
            body = b"x" * (30_000_000 if phase == "sending" else 10)
            yield sender, request(receiver.url(scheme=scheme), body=body, timeout=0.4)
        await sender.close()


PHASES = ["dns", "connect", "tls", "sending", "response"]


@pytest.mark.parametrize("phase", PHASES)
async def test_the_deadline_holds_in_each_phase(phase: str) -> None:
    """Wherever a request hangs, it ends at its deadline."""
    async with hanging_in(phase) as (sender, hanging):
        started = monotonic()
        result = await sender.send(hanging)
        assert (result.status, result.trouble) == (None, Trouble.TIMEOUT)
        assert 0.35 <= monotonic() - started <= 0.4 + SLACK
        assert 0.35 <= result.latency <= 0.4 + SLACK
        await until(lambda: sender.connections == 0)


@pytest.mark.parametrize("phase", PHASES)
async def test_a_cancelled_request_closes_its_connection_at_once(phase: str) -> None:
    """Wherever a request is cancelled, its connection is closed and nothing is left (the fixture looks)."""
    async with hanging_in(phase) as (sender, hanging):
        # Its deadline is far away, so it is the cancelling that ends it.
        sending = asyncio.create_task(sender.send(hanging._replace(timeout=30.0)))
        await asyncio.sleep(0.1)
        started = monotonic()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        await until(lambda: sender.connections == 0)
        assert monotonic() - started < SLACK


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_cancelling_at_any_moment_leaves_nothing(scheme: str) -> None:
    """A request that is cancelled at whatever step of the loop leaves no socket and no task (the fixture looks)."""
    ca = trustme.CA()
    server = serving(ca.issue_cert("hook.test")) if scheme == "https" else None
    async with (
        receiving(answering(OK), tls=server) as receiver,
        naming(hook_test=["127.0.0.1", "127.0.0.2", "::1"]) as names,
    ):
        resolver = DnsResolver([names.address], hosts={})
        sender = HttpSender(LOOPBACK, resolver=resolver, ssl_context=trusting(ca))
        asked = request(receiver.url(scheme=scheme, host="hook.test"))
        for steps in range(60):
            sending = asyncio.create_task(sender.send(asked))
            for _ in range(steps):
                await asyncio.sleep(0)
            sending.cancel()
            await asyncio.wait([sending])
        assert (await sender.send(asked)).status == 200
        await sender.close()
        await until(lambda: receiver.open == 0)


async def test_closing_ends_what_is_under_way() -> None:
    """Requests that wait for an answer when the sender is closed end at once with a trouble of our own."""
    async with receiving(silent) as receiver:
        sender = HttpSender(LOOPBACK)
        sending = asyncio.create_task(sender.send(request(receiver.url())))
        await receiver.arrived.wait()
        await sender.close()
        result = await sending
        assert (result.trouble, sender.connections) == (Trouble.LOCAL, 0)


async def test_one_bad_endpoint_does_not_slow_the_others() -> None:
    """With hundreds of requests hanging at one endpoint, another answers as fast as through an idle sender."""
    idle, busy = HttpSender(LOOPBACK), HttpSender(LOOPBACK)
    took: dict[HttpSender, list[float]] = {idle: [], busy: []}
    async with receiving(answering(OK)) as good, receiving(silent) as bad:
        hanging = [asyncio.create_task(busy.send(request(bad.url(), timeout=60))) for _ in range(300)]
        await until(lambda: len(bad.requests) == 300)
        # In turns: whatever slows this machine meanwhile slows both.
        for _ in range(1000):
            for sender, latencies in took.items():
                latencies.append((await sender.send(request(good.url()))).latency)
        await idle.close()
        await busy.close()
        await asyncio.wait(hanging)
    assert median(took[busy]) < median(took[idle]) * 1.5
