"""Endpoints that do their worst: what is read and remembered of it is bounded, and the next one is not touched."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import Final

import pytest
import trustme

from hookfuse.core.sending import Trouble
from hookfuse.transport import HttpSender
from hookfuse.transport.connection import Connection
from tests.memory import Peak
from tests.unit.transport.certificates import serving, trusting
from tests.unit.transport.receiver import (
    LOOPBACK,
    OK,
    Receiver,
    Script,
    answering,
    once,
    receiving,
    request,
    silent,
    until,
)

SLACK: Final = 0.5
KIB: Final = 1024


@pytest.fixture
def sender() -> HttpSender:
    return HttpSender(LOOPBACK)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def dripping(head: bytes, drop: bytes) -> Script:
    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        writer.write(head)
        while not writer.is_closing():
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(0.02)

    return script


SLOW: Final = {
    "never answers": silent,
    "drips the status line": dripping(b"HTTP/1.1 200 ", b"O"),
    "drips headers": dripping(b"HTTP/1.1 200 OK\r\n", b"x"),
    "drips a body by length": dripping(b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", b"x"),
    "drips chunks": dripping(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
    "drips a body without an end": dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x"),
}


@pytest.mark.parametrize("way", SLOW)
async def test_the_deadline_holds_over_the_whole_response(sender: HttpSender, way: str) -> None:
    """However an endpoint stretches its answer, the slot is free at the deadline and the connection is closed."""
    async with receiving(SLOW[way]) as receiver:
        started = monotonic()
        result = await sender.send(request(receiver.url(), timeout=0.3))
        took = monotonic() - started
        await asyncio.wait_for(receiver.left.wait(), 5)
        await until(lambda: sender.connections == 0)
        await sender.close()
    assert (result.status, result.trouble) == (None, Trouble.TIMEOUT)
    assert 0.25 <= took <= 0.3 + SLACK
    assert 0.25 <= result.latency <= 0.3 + SLACK


def flooding(head: bytes, piece: bytes) -> tuple[Script, list[int]]:
    """Send without end, and count what the kernel took."""
    sent = [0]

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        writer.write(head)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            sent[0] += len(piece)

    return script, sent


ENDLESS: Final = {
    "ten gigabytes by length": (b"HTTP/1.1 200 OK\r\ncontent-length: 10737418240\r\n\r\n", b"x" * 65_536),
    "chunks without end": (
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        b"10000\r\n" + b"x" * 65_536 + b"\r\n",
    ),
    "one-byte chunks without end": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 10_000),
    "until the end of time": (b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536),
    "trailers without end": (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"x: y\r\n" * 10_000),
}


@pytest.mark.parametrize("way", ENDLESS)
async def test_a_huge_body_is_cut_and_its_status_counts(sender: HttpSender, way: str) -> None:
    """Of a response without end at most 64 KiB are kept, memory stays flat, and the endpoint has answered."""
    head, piece = ENDLESS[way]
    script, sent = flooding(head, piece)
    async with receiving(script) as receiver:
        with Peak() as held:
            for _ in range(10):
                result = await sender.send(request(receiver.url()))
                assert (result.status, result.truncated, result.trouble) == (200, True, None)
                assert len(result.body) <= 64 * KIB
        await until(lambda: sender.connections == 0)
        await sender.close()
    assert sent[0] > 0
    assert held.bytes < 2 * KIB * KIB


FLOODS: Final = {
    **ENDLESS,
    "headers without end": (b"HTTP/1.1 200 OK\r\n", b"x" * 65_536),
    "a body after many headers": (
        b"HTTP/1.1 200 OK\r\n" + (b"x: " + b"a" * 1000 + b"\r\n") * 60 + b"\r\n",
        b"x" * 65_536,
    ),
}


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("way", FLOODS)
async def test_no_more_than_64_kib_of_a_response_are_read(
    monkeypatch: pytest.MonkeyPatch, ca: trustme.CA, way: str, tls: bool
) -> None:
    """However fast and long an endpoint sends, 64 KiB are taken off its socket, or decrypted, and not a byte more."""
    taken = [0]
    updated = Connection.buffer_updated

    def counted(connection: Connection, nbytes: int) -> None:
        taken[-1] += nbytes
        updated(connection, nbytes)

    monkeypatch.setattr(Connection, "buffer_updated", counted)
    sender = HttpSender(LOOPBACK, ssl_context=trusting(ca))
    with pouring(*FLOODS[way], tls=serving(ca.issue_cert("127.0.0.1")) if tls else None) as port:
        for _ in range(10):
            taken.append(0)
            result = await sender.send(request(f"http{'s' * tls}://127.0.0.1:{port}/"))
            assert result.truncated or result.trouble is Trouble.PROTOCOL
            await until(lambda: sender.connections == 0)
        await sender.close()
    assert set(taken[1:]) == {64 * KIB}


async def test_tickets_without_an_end_end_the_connection(ca: trustme.CA) -> None:
    """A server that goes on with TLS itself, of which no reader of the data would hear, is left to itself."""
    context = serving(ca.issue_cert("127.0.0.1"))
    context.num_tickets = 5_000
    sender = HttpSender(LOOPBACK, ssl_context=trusting(ca))
    async with receiving(silent, tls=context) as receiver:
        result = await sender.send(request(receiver.url(scheme="https")))
        assert (result.trouble, result.detail) == (Trouble.TLS, "Too much came that was no data.")
        await until(lambda: sender.connections == receiver.open == 0)
        await sender.close()


async def test_data_in_the_smallest_records_is_data(ca: trustme.CA) -> None:
    """What TLS puts around each byte of a response does not count as too much, on however many responses."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await receiver.read(reader)
            for byte in b"HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n" + b"x" * 5_000:
                writer.write(bytes((byte,)))

    sender = HttpSender(LOOPBACK, ssl_context=trusting(ca))
    async with receiving(script, tls=serving(ca.issue_cert("127.0.0.1"))) as receiver:
        for _ in range(4):
            result = await sender.send(request(receiver.url(scheme="https")))
            assert (result.status, len(result.body)) == (200, 5_000)
        assert receiver.connections == 1
        await sender.close()


@contextmanager
def pouring(head: bytes, piece: bytes, *, tls: ssl.SSLContext | None) -> Iterator[int]:
    """Floods from a thread of its own: whenever we read, there is as much to read as the system holds."""

    def pour() -> None:
        while not over.is_set():
            accepted = listening.accept()[0]
            with suppress(OSError), tls.wrap_socket(accepted, server_side=True) if tls else accepted as peer:
                if peer.recv(65_536):
                    peer.sendall(head)
                while not over.is_set():
                    peer.sendall(piece)

    over = Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = Thread(target=pour)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            over.set()
            socket.create_connection(listening.getsockname()).close()
            thread.join()


async def test_a_gzip_bomb_stays_packed(sender: HttpSender) -> None:
    """A packed body is handed on as it came."""
    bomb = gzip.compress(b"\0" * 20 * KIB * KIB)
    response = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(bomb) + bomb
    async with receiving(answering(response)) as receiver:
        result = await sender.send(request(receiver.url()))
        await sender.close()
    assert (result.status, result.body, result.truncated) == (200, bomb, False)


FULL: Final = {
    "by length": b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n",
    "after interim responses": b"HTTP/1.1 100 Continue\r\n\r\n" * 3 + b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n",
}


@pytest.mark.parametrize("way", FULL)
@pytest.mark.parametrize("pieces", [1, 3])
async def test_a_response_of_exactly_the_limit_is_whole(sender: HttpSender, way: str, pieces: int) -> None:
    """64 KiB are whole, all that was sent taken together; one byte more is cut, and 64 KiB of it were read."""
    size = 64 * KIB - len(FULL[way] % 10_000)
    for more in (0, 1):
        response = FULL[way] % (size + more) + b"x" * (size + more)
        step = len(response) // pieces + 1
        async with receiving(answering(*(response[at:][:step] for at in range(0, len(response), step)))) as receiver:
            for _ in range(2):
                result = await sender.send(request(receiver.url()))
                assert (result.status, len(result.body), result.truncated) == (200, size, bool(more))
    await sender.close()


async def test_headers_beyond_the_limit_are_at_fault(sender: HttpSender) -> None:
    """Headers that end just in time are a response without its body; with a byte more of them there is none."""
    hint = b"HTTP/1.1 103 Hints\r\nlink: " + b"a" * 1000 + b"\r\n\r\n"
    for before in (b"", hint * 8):
        head = before + b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nx: %s\r\n\r\n"
        room = 64 * KIB - len(head) + 2
        for more in (0, 1):
            async with receiving(answering(head % (b"a" * (room + more)) + b"ok")) as receiver:
                result = await sender.send(request(receiver.url()))
            if more:
                assert result.trouble is Trouble.PROTOCOL
                assert "headers of more than 65536 bytes" in result.detail
            else:
                assert (result.status, result.body, result.truncated) == (200, b"", True)
    await sender.close()


async def test_what_one_endpoint_sends_never_reaches_another(sender: HttpSender) -> None:
    """All connections read into one place; answers that arrive together, in pieces, stay apart all the same."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            body = (await receiver.read(reader)).partition(b"\r\n\r\n")[2] * 2_000
            response = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            for at in range(0, len(response), 5_000):
                writer.write(response[at : at + 5_000])
                await asyncio.sleep(0)

    async def send(number: int) -> bytes:
        return (await sender.send(request(receiver.url(), body=b"%010d" % number))).body

    async with receiving(script) as receiver:
        for _ in range(3):
            bodies = await asyncio.gather(*(send(number) for number in range(40)))
            assert bodies == [b"%010d" % number * 2_000 for number in range(40)]
        await sender.close()


MALFORMED: Final = {
    "no HTTP": b"220 mail.example.com ESMTP\r\n",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/2 frames": b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\n\r\n",
    "HTTP/2.0 in the status line": b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
    "HTTP/3.1": b"HTTP/3.1 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "a status of 0": b"HTTP/1.1 000 Zero\r\ncontent-length: 0\r\n\r\n",
    "a status of 99": b"HTTP/1.1 099 Low\r\ncontent-length: 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switch\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    "switching without saying to what": b"HTTP/1.1 101 Switch\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
    "length and chunks": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
    "a length that overflows": b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n",
    "a space in a header name": b"HTTP/1.1 200 OK\r\na b: c\r\n\r\n",
    "a NUL in a header": b"HTTP/1.1 200 OK\r\na: \0\r\n\r\n",
    "a chunk size that is none": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
    "a header of 1 MiB": b"HTTP/1.1 200 OK\r\nx: " + b"a" * KIB * KIB + b"\r\n\r\n",
    "headers of 90 KB": b"HTTP/1.1 200 OK\r\n" + (b"x: " + b"a" * 1000 + b"\r\n") * 90 + b"\r\n",
    "too many headers": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 101 + b"content-length: 0\r\n\r\n",
    "interim responses without end": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
    "TLS": b"\x15\x03\x01\x00\x02\x02\x16",
}


@pytest.mark.parametrize("way", MALFORMED)
async def test_what_is_no_response_is_a_protocol_trouble(sender: HttpSender, way: str) -> None:
    """What is not one plain HTTP/1.x response of a bounded size is refused, and its connection is not used again."""
    async with receiving(answering(MALFORMED[way])) as receiver:
        result = await sender.send(request(receiver.url()))
        await until(lambda: sender.connections == 0)
        await sender.close()
    assert (result.status, result.trouble) == (None, Trouble.PROTOCOL)
    assert result.detail
    assert len(result.detail) < 200


BROKEN: Final = {
    "before a response": b"",
    "in the status line": b"HTTP/1.1 20",
    "in the headers": b"HTTP/1.1 200 OK\r\nx: y\r\n",
    "in a body by length": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello",
    "in a chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe",
    "before the last chunk": b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n",
    "after an interim response": b"HTTP/1.1 100 Continue\r\n\r\n",
}


@pytest.mark.parametrize("way", BROKEN)
async def test_a_response_that_is_cut_short_is_none(sender: HttpSender, way: str) -> None:
    """A connection that ends or breaks in mid-response is a disconnection, whatever status was seen."""
    for script in (once(BROKEN[way]), resetting(BROKEN[way])):
        async with receiving(script) as receiver:
            result = await sender.send(request(receiver.url()))
        assert (result.status, result.trouble) == (None, Trouble.DISCONNECTED)
        assert receiver.connections == 1
    await sender.close()


def resetting(response: bytes) -> Script:
    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        writer.write(response)
        await writer.drain()
        await asyncio.sleep(0.05)  # lets the bytes arrive before the reset takes them back
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    return script


async def test_a_body_without_a_length_must_not_end_in_a_reset(sender: HttpSender) -> None:
    """Only an orderly end of the connection ends a body that has no other end."""
    async with receiving(resetting(b"HTTP/1.1 200 OK\r\n\r\nhello")) as receiver:
        result = await sender.send(request(receiver.url()))
        await sender.close()
    assert result.trouble is Trouble.DISCONNECTED


async def test_a_second_answer_is_not_given_to_the_next_request(sender: HttpSender) -> None:
    """Who answers twice, or unasked, loses the connection, so that no answer reaches another request."""
    evil = b"HTTP/1.1 418 Teapot\r\ncontent-length: 4\r\n\r\nevil"
    for pieces in ([OK + evil], [OK, evil], [OK + b"HTTP/1."]):
        async with receiving(answering(*pieces, pause=0.02)) as receiver:
            for _ in range(3):
                result = await sender.send(request(receiver.url()))
                assert (result.status, result.body) == (200, b"ok")
                await asyncio.sleep(0.05)
            assert receiver.connections == 3
    await sender.close()
