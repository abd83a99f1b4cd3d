"""Endpoints that are broken or mean harm, as a client meets them on the wire."""

from __future__ import annotations

import asyncio
import time
import zlib

import pytest

from hookfuse.testing.receivers import (
    BigHeader,
    Bomb,
    Dead,
    DripBody,
    DripHeaders,
    Hang,
    Huge,
    Malformed,
    Ok,
    Receivers,
    Reset,
)
from tests.unit.testing.calling import Client, post, request, until
from tests.unit.testing.conftest import Run


def test_dead_on_its_own_port(run: Run) -> None:
    """A dead endpoint refuses connections, a healed one answers at the same address, and dying drops who is there."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Dead())
            for _ in range(3):
                with pytest.raises(ConnectionRefusedError):
                    await Client.connect(url)
                receivers.change("ep", Ok())
                client = await Client.connect(url)
                client.send(request(url))
                assert (await client.reply()).status == 200
                receivers.change("ep", Dead())
                with pytest.raises(ConnectionResetError):
                    await client.rest()
                await client.close()

    run(scenario())


def test_dead_on_a_shared_port(run: Run) -> None:
    """Where others live on the port, a dead endpoint resets the connections that ask for it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url, other = receivers.add("ep"), receivers.add("other")
            receivers.change("ep", Dead())
            with pytest.raises(ConnectionResetError):
                await post(url)
            assert (await post(other)).status == 200

    run(scenario())


def test_hang(run: Run) -> None:
    """A hanging endpoint takes the request, says nothing, and counts it until the client leaves."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Hang())
            client = await Client.connect(url)
            client.send(request(url))
            await receivers["ep"].arrived(1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.rest()
            assert receivers["ep"].in_flight == 1
            receivers.change("ep", Ok())
            assert (await post(url)).status == 200
            assert receivers["ep"].in_flight == 1
            await client.close()
            await until(lambda: receivers["ep"].in_flight == 0)

    run(scenario())


def test_drip_headers(run: Run) -> None:
    """Headers come byte by byte, each one in time to keep a careless client waiting, and never end."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", DripHeaders(interval=0.001))
            client = await Client.connect(url)
            client.send(request(url))
            dripped = await client.exactly(200)
            assert dripped.startswith(b"HTTP/1.1 200 OK\r\nx-drip: drop\r\nx-drip: ")
            assert b"\r\n\r\n" not in dripped
            await client.close()

    run(scenario())


def test_drip_body(run: Run) -> None:
    """The headers come at once and the body byte by byte, to its end if there is one."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", DripBody(interval=0.01, size=5))
            client = await Client.connect(url)
            began = time.monotonic()
            client.send(request(url))
            assert b"content-length: 5\r\n" in await client.head()
            assert await client.exactly(5) == b"....."
            assert time.monotonic() - began >= 0.045
            client.send(request(url))
            assert (await client.reply()).body == b"....."
            await client.close()

    run(scenario())


@pytest.mark.parametrize("size", [0, 1, 1 << 16, 200_001])
def test_huge_keeps_its_word(run: Run, size: int) -> None:
    """A body is as long as it was announced, and the connection serves on after it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Huge(size))
            client = await Client.connect(url)
            for _ in range(2):
                client.send(request(url))
                assert len((await client.reply()).body) == size
            await client.close()

    run(scenario())


def test_huge_holds_up_nobody(run: Run) -> None:
    """While a client reads a huge body, or does not, others are answered."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            huge, other = receivers.add("huge", Huge()), receivers.add("other")
            client = await Client.connect(huge)
            client.send(request(huge))
            assert b"content-length: 10737418240\r\n" in await client.head()
            for _ in range(3):
                await client.exactly(1 << 20)
                assert (await post(other)).status == 200
            await client.close()

    run(scenario())


def test_bomb() -> None:
    """A small body claims gzip and unpacks to a thousand times its size, every byte of it valid."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            reply = await post(receivers.add("ep", Bomb(size=(32 << 20) + 1)))
            assert reply.headers["content-encoding"] == "gzip"
            assert len(reply.body) < (48 << 20) / 900
            unpacked, packed = 0, reply.body
            while packed:
                member = zlib.decompressobj(wbits=31)
                unpacked += len(member.decompress(packed))
                assert member.eof
                packed = member.unused_data
            assert unpacked == 48 << 20

    asyncio.run(scenario())


def test_big_header(run: Run) -> None:
    """One header has a mebibyte."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            reply = await post(receivers.add("ep", BigHeader()))
            assert len(reply.headers["x-big"]) == 1 << 20

    run(scenario())


def test_malformed(run: Run) -> None:
    """What is given goes out as it is, and then the connection is closed."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Malformed(b"\x00not http"))
            client = await Client.connect(url)
            client.send(request(url))
            assert await client.rest() == b"\x00not http"
            await client.close()

    run(scenario())


def test_reset_in_the_response(run: Run) -> None:
    """The client gets a beginning, and then RST."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            url = receivers.add("ep", Reset())
            client = await Client.connect(url)
            client.send(request(url))
            assert b"content-length: 1000\r\n" in await client.head()
            with pytest.raises(ConnectionResetError):
                await client.exactly(1000)
            await client.close()

    run(scenario())


def test_reset_instead_of_a_response(run: Run) -> None:
    """The client gets RST, and nothing before it."""

    async def scenario() -> None:
        async with Receivers() as receivers:
            with pytest.raises(ConnectionResetError):
                await post(receivers.add("ep", Reset(in_response=False)))

    run(scenario())
