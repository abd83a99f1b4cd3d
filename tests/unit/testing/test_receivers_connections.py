"""How receivers treat connections: good, odd, broken and left ones."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from urllib.parse import urlsplit

import pytest

from hookfuse.testing.receivers import (
    Answer,
    Behaviour,
    Dead,
    DripBody,
    DripHeaders,
    Hang,
    Huge,
    Ok,
    Receivers,
    Slow,
)
from hookfuse.testing.receivers.playing import Play
from tests.unit.testing.calling import PATIENCE, Client, post, request, until
from tests.unit.testing.conftest import Run


def test_answer_ends_with_its_last_byte(run: Run) -> None:
    """An answer is over once its last byte is written, for a client may send its next request the moment it has it."""

    async def scenario() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=ours)
            ended: list[bool] = []
            Play(Answer(200, (b"whole",)), transport, keep=True, done=lambda: ended.append(True)).go()
            assert ended == [True]
            transport.abort()
            await asyncio.sleep(0)

    run(scenario())


@pytest.mark.parametrize("behaviour", [Slow(0.01), DripBody(0.001), DripHeaders(0.001)])
def test_client_that_leaves(run: Run, behaviour: Behaviour) -> None:
    """Nothing more is written for a client that has left."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", behaviour)
            client = await Client.connect(url)
            client.send(request(url))
            await receivers["ep"].arrived(1)
            await client.close()
            await until(lambda: receivers.connections == 0)
            # What was planned for later would be due by then.
            receivers.add("later", Slow(0.02))
            await post(receivers["later"].url)

    run(scenario())


def test_two_requests_on_one_connection(run: Run) -> None:
    """Nothing of a request is taken for the next one's."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep")
            client = await Client.connect(url)
            client.send(request(url, b"first", {"webhook-id": "msg_1"}))
            await client.reply()
            client.send(request(url, b"second"))
            await client.reply()
            told = [(receipt.webhook_id, receipt.sha256) for receipt in receivers.receipts()]
            assert told == [
                ("msg_1", hashlib.sha256(b"first").hexdigest()),
                ("", hashlib.sha256(b"second").hexdigest()),
            ]
            await client.close()

    run(scenario())


def test_bytes_one_by_one(run: Run) -> None:
    """A request reads the same however the packets cut it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep")
            client = await Client.connect(url)
            for byte in request(f"{url}?a=b", b"body", {"webhook-id": "msg_1"}):
                client.send(bytes((byte,)))
                await asyncio.sleep(0)
            assert (await client.reply()).status == 200
            (receipt,) = receivers.receipts()
            assert (receipt.webhook_id, receipt.sha256) == ("msg_1", hashlib.sha256(b"body").hexdigest())
            await client.close()

    run(scenario())


def test_chunked_body(run: Run) -> None:
    """A body in chunks is one body."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep")
            client = await Client.connect(url)
            client.send(b"POST /ep/ep HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
            client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            assert (await client.reply()).status == 200
            assert receivers.receipts()[0].sha256 == hashlib.sha256(b"abcde").hexdigest()
            await client.close()

    run(scenario())


@pytest.mark.parametrize("behaviour", [Ok(), Slow(0.001)])
def test_connection_close(run: Run, behaviour: Behaviour) -> None:
    """A client that wants the connection closed gets its answer and then the end."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", behaviour)
            client = await Client.connect(url)
            client.send(request(url, headers={"connection": "close"}))
            assert (await client.rest()).startswith(b"HTTP/1.1 200 OK\r\n")
            await client.close()

    run(scenario())


@pytest.mark.parametrize(
    "data", [b"what?\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / HTTP/1.1\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"]
)
def test_not_a_request(run: Run, data: bytes) -> None:
    """What is no request that we serve gets 400 and the end, and harms nobody."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep")
            client = await Client.connect(url)
            client.send(data)
            assert b"HTTP/1.1 400 Bad Request\r\n" in await client.rest()
            await client.close()
            assert (await post(url)).status == 200

    run(scenario())


def test_strays(run: Run) -> None:
    """A request for nobody gets 404 and is counted as a stray."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep")
            assert (await post(url + "x")).status == 404
            assert receivers.strays == 1
            assert receivers["ep"].requests == 0

    run(scenario())


def test_impatient_client(run: Run) -> None:
    """A client that sends a second request before it was answered is cut off, not served in a wrong order."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Hang())
            client = await Client.connect(url)
            client.send(request(url))
            await receivers["ep"].arrived(1)
            client.send(request(url))
            with pytest.raises(ConnectionResetError):
                await client.rest()
            assert receivers["ep"].requests == 1
            await client.close()

    run(scenario())


@pytest.mark.parametrize("turns", range(8))
def test_the_end_during_a_beginning(run: Run, turns: int) -> None:
    """Receivers close wherever a new connection has got to."""

    async def scenario() -> None:
        with socket.socket() as client:
            async with asyncio.timeout(PATIENCE), Receivers() as receivers:
                # The system completes it at once; the loop learns of it bit by bit.
                client.connect(("127.0.0.1", receivers.port))
                for _ in range(turns):
                    await asyncio.sleep(0)
            assert receivers.connections == 0

    run(scenario())


@pytest.mark.parametrize("turns", range(8))
def test_dying_during_a_beginning(run: Run, turns: int) -> None:
    """An endpoint that dies drops a new connection, wherever that has got to."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", own_port=True)
            with socket.socket() as client:
                client.connect(("127.0.0.1", urlsplit(url).port))
                for _ in range(turns):
                    await asyncio.sleep(0)
                receivers.change("ep", Dead())
                client.setblocking(False)
                with pytest.raises(ConnectionResetError):
                    async with asyncio.timeout(PATIENCE):
                        await asyncio.get_running_loop().sock_recv(client, 1)

    run(scenario())


def test_the_end(run: Run) -> None:
    """When receivers close, whoever is connected is dropped, whatever was going on, and the port refuses."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            urls = [receivers.add("hang", Hang()), receivers.add("huge", Huge()), receivers.add("slow", Slow(60))]
            clients = [await Client.connect(url) for url in urls]
            for client, url in zip(clients, urls, strict=True):
                client.send(request(url))
            await asyncio.gather(*(receivers[name].arrived(1) for name in ("hang", "huge", "slow")))
        assert receivers.connections == 0
        for client, url in zip(clients, urls, strict=True):
            with pytest.raises(ConnectionResetError):
                await client.rest()
            await client.close()
            with pytest.raises(ConnectionRefusedError):
                await Client.connect(url)

    run(scenario())
