"""Connections that are kept: which are used again, which are replaced, and how many there are at most."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import fields
from ipaddress import ip_address
from time import monotonic
from typing import Any

import pytest

from hookfuse.core.addresses import Networks
from hookfuse.core.sending import Trouble
from hookfuse.errors import InvalidInput
from hookfuse.transport import DnsResolver, HttpSender, Limits
from hookfuse.transport.dialing import in_turns
from tests.turns import Turns
from tests.unit.transport.nameserver import naming
from tests.unit.transport.receiver import LOOPBACK, OK, Receiver, Script, answering, receiving, request, silent, until


async def test_a_connection_is_used_again() -> None:
    """One request after the other goes over one connection; as many at once take as many, which are then kept."""
    sender = HttpSender(LOOPBACK)
    async with receiving(answering(OK)) as receiver:
        for _ in range(5):
            assert (await sender.send(request(receiver.url()))).status == 200
        assert receiver.connections == 1
        for _ in range(3):
            results = await asyncio.gather(*(sender.send(request(receiver.url())) for _ in range(10)))
            assert {result.status for result in results} == {200}
        assert receiver.connections == sender.connections == 10
        await sender.close()
        assert sender.connections == 0


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
)
async def test_who_wants_to_close_is_left(response: bytes) -> None:
    """A connection is closed after a response that says so, or that is of HTTP/1.0."""
    sender = HttpSender(LOOPBACK)
    async with receiving(answering(response)) as receiver:
        for _ in range(3):
            assert (await sender.send(request(receiver.url()))).status == 200
            await until(lambda: sender.connections == 0)
        assert receiver.connections == 3
        await sender.close()


def closing_after(answers: int, *, reset: bool = False, read: bool = True) -> Script:
    """Answer so many requests on a connection, then take one more (unless `read` is off) and hang up."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(answers):
            await receiver.read(reader)
            writer.write(OK)
        if read:
            await receiver.read(reader)
        if reset:
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return script


def a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens at once may take it longer than that."""
    monkeypatch.setattr("hookfuse.transport.connection._SOON_AT_LEAST", 1.0)


@pytest.mark.parametrize("reset", [False, True])
async def test_a_kept_connection_that_ends_without_an_answer_is_replaced_once(
    monkeypatch: pytest.MonkeyPatch, reset: bool
) -> None:
    """A kept connection that was hung up at once without a byte of an answer is replaced silently by a new one."""
    a_busy_machine(monkeypatch)
    sender = HttpSender(LOOPBACK)
    async with receiving(closing_after(1, reset=reset)) as receiver:
        assert (await sender.send(request(receiver.url()))).status == 200
        assert (await sender.send(request(receiver.url()))).status == 200
        assert (receiver.connections, len(receiver.requests)) == (2, 3)
        await sender.close()


@pytest.mark.parametrize(
    ("connecting", "after", "replaced"),
    [
        *((0.0, 0.04, True), (0.0, 0.06, False), (0.2, 0.39, True)),
        *((0.2, 0.41, False), (5.0, 0.99, True), (5.0, 1.01, False)),
    ],
)
async def test_a_kept_connection_that_ends_late_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, connecting: float, after: float, replaced: bool
) -> None:
    """Who hangs up later than two round trips after a request has had it, so it is not sent to them again."""
    now = monotonic()
    dialled = iter((now, now + connecting, now, now + connecting))
    monkeypatch.setattr("hookfuse.transport.dialer.monotonic", lambda: next(dialled))
    for module in ("sender", "connection"):
        monkeypatch.setattr(f"hookfuse.transport.{module}.monotonic", lambda: now)

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal now
        await receiver.read(reader)
        writer.write(OK)
        await receiver.read(reader)
        now += after

    sender = HttpSender(LOOPBACK)
    async with receiving(script) as receiver:
        assert (await sender.send(request(receiver.url()))).status == 200
        result = await sender.send(request(receiver.url()))
        assert (result.status, result.trouble) == ((200, None) if replaced else (None, Trouble.DISCONNECTED))
        assert (receiver.connections, len(receiver.requests)) == ((2, 3) if replaced else (1, 2))
        await sender.close()


async def test_a_new_connection_that_ends_without_an_answer_is_not_replaced() -> None:
    """On a new connection the same is the endpoint's failure: it may have worked on the request."""
    sender = HttpSender(LOOPBACK)
    async with receiving(closing_after(0)) as receiver:
        result = await sender.send(request(receiver.url()))
        assert (result.trouble, receiver.connections) == (Trouble.DISCONNECTED, 1)
        await sender.close()


async def test_a_kept_connection_that_ends_in_mid_answer_is_not_replaced() -> None:
    """With a byte of an answer the request has arrived, so it is not sent again."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        writer.write(OK)
        await receiver.read(reader)
        writer.write(b"H")
        await writer.drain()
        writer.write_eof()
        await reader.read()

    sender = HttpSender(LOOPBACK)
    async with receiving(script) as receiver:
        assert (await sender.send(request(receiver.url()))).status == 200
        result = await sender.send(request(receiver.url()))
        assert (result.trouble, receiver.connections) == (Trouble.DISCONNECTED, 1)
        await sender.close()


async def test_the_deadline_is_not_begun_anew_by_a_replacement() -> None:
    """Time spent on a dead connection counts, and a deadline on a kept connection is a timeout, not a replacement."""
    sender = HttpSender(LOOPBACK)

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        writer.write(OK)
        await silent(receiver, reader, writer)

    async with receiving(script) as receiver:
        assert (await sender.send(request(receiver.url()))).status == 200
        result = await sender.send(request(receiver.url(), timeout=0.2))
        assert (result.trouble, receiver.connections) == (Trouble.TIMEOUT, 1)
        assert result.latency < 0.7
        await sender.close()


async def test_every_request_ends_at_its_own_deadline() -> None:
    """However many hang, in whatever order they came: none ends before its time, and none waits for another's."""
    sender = HttpSender(LOOPBACK)
    timeouts = [0.4, 5.0, 0.1, 0.3, 0.1, 0.2, 0.35, 0.15] * 5
    async with receiving(silent) as receiver:
        sending = [asyncio.create_task(sender.send(request(receiver.url(), timeout=timeout))) for timeout in timeouts]
        await asyncio.wait([task for task, timeout in zip(sending, timeouts, strict=True) if timeout < 1])
        for task, timeout in zip(sending, timeouts, strict=True):
            if timeout < 1:
                result = await task
                assert result.trouble is Trouble.TIMEOUT
                assert timeout <= result.latency < timeout + 0.2
            else:
                assert not task.done()
        await sender.close()
        assert {(await task).trouble for task, timeout in zip(sending, timeouts, strict=True) if timeout > 1} == {
            Trouble.LOCAL
        }


async def test_a_connection_that_the_peer_closes_while_idle_is_forgotten() -> None:
    """What the peer closes in between costs nothing, and nothing is sent on it."""
    sender = HttpSender(LOOPBACK)
    async with receiving(closing_after(1, read=False)) as receiver:
        for number in range(1, 4):
            assert (await sender.send(request(receiver.url()))).status == 200
            await until(lambda: sender.connections == 0)
            assert receiver.connections == len(receiver.requests) == number
        await sender.close()


async def test_an_early_answer_leaves_the_connection() -> None:
    """A response that comes before the request is sent ends the connection: the rest would be read as another one."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(5)

    sender = HttpSender(LOOPBACK)
    async with receiving(script) as receiver:
        result = await sender.send(request(receiver.url(), body=b"x" * 30_000_000))
        assert result.status == 413
        assert (await sender.send(request(receiver.url()))).status == 413
        assert receiver.connections == 2
        await sender.close()


async def test_idle_connections_are_closed_after_a_while() -> None:
    """A connection that nobody needs goes by itself, and one sweep serves them all."""
    sender = HttpSender(LOOPBACK, limits=Limits(idle_seconds=0.1))
    async with receiving(answering(OK)) as receiver:
        await asyncio.gather(*(sender.send(request(receiver.url())) for _ in range(5)))
        assert sender.connections == 5
        await until(lambda: sender.connections == receiver.open == 0)
        assert (await sender.send(request(receiver.url()))).status == 200
        assert receiver.connections == 6
        await sender.close()


@pytest.mark.parametrize(
    ("told", "kept"),
    [
        *(
            (b"timeout=30", 29.0),
            (b"timeout=30, max=1000", 29.0),
            (b"max=5, Timeout = 20", 19.0),
            (b"timeout=61", 60.0),
        ),
        *((b"timeout=999999", 60.0), (b"timeout=5", 4.0), (b"timeout=1", 4.0), (b"timeout=0", 4.0)),
        *((b"max=100", 4.0), (b"timeout=-1", 4.0), (b"timeout=x", 4.0), (b"timeout=" + b"9" * 30, 4.0)),
        *((b"xtimeout=30", 4.0), (b"", 4.0)),
    ],
)
async def test_a_connection_is_kept_for_as_long_as_its_endpoint_says(
    monkeypatch: pytest.MonkeyPatch, told: bytes, kept: float
) -> None:
    """Until a second before the endpoint's own time, a minute at most, and never for less than without a word of it."""
    now = monotonic()
    monkeypatch.setattr("hookfuse.transport.pool.monotonic", lambda: now)
    monkeypatch.setattr("hookfuse.transport.pool._SWEEPS_APART", 0.002)
    response = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: %s\r\n\r\n" % told
    sender = HttpSender(LOOPBACK)
    async with receiving(answering(response)) as receiver:
        for _ in range(2):
            assert (await sender.send(request(receiver.url()))).status == 200
        now += kept - 0.01
        await asyncio.sleep(0.02)
        assert (sender.connections, receiver.connections) == (1, 1)
        now += 0.02
        await until(lambda: sender.connections == 0)
        await sender.close()


async def test_only_the_first_answer_says_how_long() -> None:
    """Each connection has its own time, and what later answers say does not change it."""
    sender = HttpSender(LOOPBACK, limits=Limits(idle_seconds=0.1))

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, later = (b"timeout=60", b"timeout=0") if receiver.connections == 1 else (b"", b"timeout=60")
        for told in (first, later):
            await receiver.read(reader)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nkeep-alive: %s\r\n\r\n" % told)
        await reader.read()

    async with receiving(script) as receiver:
        for _ in range(2):
            await asyncio.gather(*(sender.send(request(receiver.url())) for _ in range(2)))
        assert receiver.connections == 2
        await until(lambda: sender.connections == receiver.open == 1)
        await sender.close()


async def test_a_host_keeps_a_bounded_number() -> None:
    """More connections than a host may keep are closed after their response."""
    sender = HttpSender(LOOPBACK, limits=Limits(idle_per_host=2))
    async with receiving(answering(OK)) as receiver:
        await asyncio.gather(*(sender.send(request(receiver.url())) for _ in range(6)))
        await until(lambda: sender.connections == 2)
        await sender.close()


async def test_all_hosts_together_keep_a_bounded_number() -> None:
    """Beyond the total, the connection goes that was idle for longest."""
    sender = HttpSender(LOOPBACK, limits=Limits(idle_total=2))
    async with receiving(answering(OK), host="0.0.0.0") as receiver:
        urls = [receiver.url(host=f"127.0.0.{last}") for last in (1, 2, 3)]
        for url in urls:
            await sender.send(request(url))
        await until(lambda: sender.connections == receiver.open == 2)
        for url in (urls[1], urls[2]):
            await sender.send(request(url))
        assert receiver.connections == 3
        await sender.send(request(urls[0]))
        assert receiver.connections == 4
        await sender.close()


async def test_remembered_hosts_are_bounded() -> None:
    """A host beyond the number that is remembered is found again, and connections of forgotten ones are closed."""
    sender = HttpSender(LOOPBACK, limits=Limits(hosts=2))
    async with receiving(answering(OK), host="0.0.0.0") as receiver:
        for last in range(1, 6):
            assert (await sender.send(request(receiver.url(host=f"127.0.0.{last}")))).status == 200
        await until(lambda: sender.connections == 2)
        await sender.close()


async def test_a_forbidden_network_holds_for_kept_connections_too() -> None:
    """Once a network is forbidden, the next send is blocked and the kept connection closed, also for a stored URL."""
    sender = HttpSender(LOOPBACK)
    async with receiving(answering(OK)) as receiver:
        stored = request(receiver.url())
        assert (await sender.send(stored)).status == 200
        sender.networks = Networks(allowed=("127.0.0.0/8",), forbidden=("127.0.0.1/32",))
        assert (await sender.send(stored)).trouble is Trouble.BLOCKED
        await until(lambda: sender.connections == receiver.open == 0)
        sender.networks = LOOPBACK
        assert (await sender.send(stored)).status == 200
        assert (receiver.connections, len(receiver.requests)) == (2, 2)
        await sender.close()


async def test_a_kept_connection_does_not_outlive_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """When a name moves, kept connections to its old address are closed and the new one is dialled."""
    async with naming(moving_test=["127.0.0.1"]) as names, receiving(answering(OK), host="0.0.0.0") as receiver:
        sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}))
        moving = request(receiver.url(host="moving.test"))
        assert (await sender.send(moving)).status == 200
        names.names["moving.test"] = ["127.0.0.2"]
        assert (await sender.send(moving)).status == 200
        assert receiver.connections == 1
        for module in ("sender", "resolver"):
            monkeypatch.setattr(f"hookfuse.transport.{module}.monotonic", lambda: monotonic() + 61)
        assert (await sender.send(moving)).status == 200
        assert receiver.connections == 2
        await until(lambda: sender.connections == receiver.open == 1)
        await sender.close()


@pytest.mark.parametrize("name", ["response_bytes", "addresses", "idle_seconds", "idle_longest", "sessions", "stagger"])
def test_a_limit_out_of_its_bounds_is_refused(name: str) -> None:
    """A limit that makes no sense is refused by its name."""
    values: list[Any] = [-1, float("nan"), "1", True]
    for bad in values:
        with pytest.raises(InvalidInput, match=name):
            Limits(**{name: bad})


@pytest.mark.parametrize("name", [field.name for field in fields(Limits) if field.type == "int"])
def test_what_is_counted_is_whole(name: str) -> None:
    """Of bytes, lines, connections and the like there is no half, nor infinitely many."""
    for bad in (1.5, 2.0, float("inf")):
        with pytest.raises(InvalidInput, match=f"{name} must be a whole number"):
            Limits(**{name: bad})  # type: ignore[arg-type]


def test_addresses_are_tried_by_turns() -> None:
    """IPv6 and IPv4 take turns, the former first, and no more than the limit."""
    addresses = [ip_address(text) for text in ("1.1.1.1", "1.1.1.2", "1.1.1.3", "2606::1")]
    assert [str(address) for address in in_turns(addresses, 3)] == ["2606::1", "1.1.1.1", "1.1.1.2"]


@pytest.mark.parametrize("count", [20, 300])
async def test_many_deadlines_end_one_by_one(count: int) -> None:
    """Requests that hang together end in one turn of the loop each, a few with time between, many soon all the same."""
    sender = HttpSender(LOOPBACK)
    ended: list[tuple[int, float]] = []
    async with receiving(silent) as receiver:
        asked = request(receiver.url())._replace(timeout=0.5)
        with Turns() as turns:

            async def send() -> None:
                assert (await sender.send(asked)).trouble is Trouble.TIMEOUT
                ended.append((turns.now, monotonic()))

            await asyncio.gather(*(send() for _ in range(count)))
        await sender.close()
    assert len({turn for turn, _ in ended}) == count
    took = ended[-1][1] - ended[0][1]
    assert took < 0.55
    if count == 20:
        assert took > 0.03
