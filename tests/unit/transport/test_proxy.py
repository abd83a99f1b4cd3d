"""The egress proxy: asked for vetted addresses only, and its failures are ours."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trustme

from hookfuse.core.sending import Trouble
from hookfuse.errors import InvalidInput
from hookfuse.transport import DnsResolver, HttpSender, Proxy
from tests.servers.ports import free_port
from tests.unit.transport.certificates import serving, trusting
from tests.unit.transport.nameserver import naming
from tests.unit.transport.receiver import LOOPBACK, OK, Receiver, Script, answering, receiving, request


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()
    writer.transport.abort()


async def connecting(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A proxy that does as it is asked."""
    head = await reader.readuntil(b"\r\n\r\n")
    receiver.requests.append(head)
    host, _, port = head.split()[1].decode().rpartition(":")
    to_reader, to_writer = await asyncio.open_connection(host.strip("[]"), int(port))
    writer.write(b"HTTP/1.1 200 Connection established\r\nvia: test\r\n\r\n")
    copies = [asyncio.create_task(_copy(reader, to_writer)), asyncio.create_task(_copy(to_reader, writer))]
    try:
        await asyncio.wait(copies)
    finally:
        to_writer.transport.abort()
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


def refusing(response: bytes) -> Script:
    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        receiver.requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(response)
        await writer.drain()

    return script


@asynccontextmanager
async def through(script: Script, **options: str) -> AsyncIterator[tuple[Receiver, HttpSender]]:
    """A proxy, and a sender that goes through it."""
    async with receiving(script) as proxy, naming(hook_test=["127.0.0.1"], inside_test=["10.0.0.1"]) as names:
        sender = HttpSender(
            LOOPBACK,
            proxy=Proxy("127.0.0.1", proxy.port, **options),
            resolver=DnsResolver([names.address], hosts={}),
        )
        yield proxy, sender
        await sender.close()


@pytest.mark.parametrize("host", ["hook.test", "127.0.0.1", "[::1]"])
async def test_the_proxy_is_asked_for_the_vetted_address(host: str) -> None:
    """CONNECT names the address, the request behind it names the host, and the tunnel is kept."""
    address = "::1" if host == "[::1]" else "127.0.0.1"
    async with through(connecting) as (proxy, sender), receiving(answering(OK), host=address) as receiver:
        for _ in range(3):
            assert (await sender.send(request(receiver.url("/a", host=host)))).status == 200
        target = f"[::1]:{receiver.port}" if address == "::1" else f"127.0.0.1:{receiver.port}"
        assert proxy.requests == [f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n\r\n".encode()]
        assert f"host: {host}:{receiver.port}\r\n".encode() in receiver.requests[0]
        assert receiver.connections == 1


async def test_tls_goes_through_the_tunnel() -> None:
    """The certificate is the endpoint's, verified for the endpoint's name."""
    ca = trustme.CA()
    async with (
        receiving(connecting) as proxy,
        receiving(answering(OK), tls=serving(ca.issue_cert("hook.test"))) as receiver,
        naming(hook_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names,
    ):
        sender = HttpSender(
            LOOPBACK,
            proxy=Proxy("127.0.0.1", proxy.port),
            resolver=DnsResolver([names.address], hosts={}),
            ssl_context=trusting(ca),
        )
        assert (await sender.send(request(receiver.url(scheme="https", host="hook.test")))).status == 200
        wrong = await sender.send(request(receiver.url(scheme="https", host="other.test")))
        assert wrong.trouble is Trouble.TLS
        await sender.close()


async def test_the_proxy_is_not_asked_for_what_is_blocked() -> None:
    """The guard stands before the proxy too."""
    async with through(connecting) as (proxy, sender):
        assert (await sender.send(request("http://inside.test/"))).trouble is Trouble.BLOCKED
        assert proxy.connections == 0


async def test_a_password_is_sent_to_the_proxy_alone() -> None:
    """Credentials are in the CONNECT and nowhere else."""
    async with (
        through(connecting, username="me", password="s:ä") as (proxy, sender),
        receiving(answering(OK)) as receiver,
    ):
        assert (await sender.send(request(receiver.url()))).status == 200
        secret = base64.b64encode("me:s:ä".encode())
        assert b"proxy-authorization: Basic " + secret in proxy.requests[0]
        assert b"proxy" not in receiver.requests[0].lower()


@pytest.mark.parametrize(
    ("response", "trouble"),
    [
        (b"HTTP/1.1 502 Bad Gateway\r\n\r\n", Trouble.CONNECT),
        (b"HTTP/1.1 504 Timeout\r\n\r\n", Trouble.CONNECT),
        (b"HTTP/1.1 407 Who are you\r\n\r\n", Trouble.LOCAL),
        (b"HTTP/1.1 403 No\r\n\r\n", Trouble.LOCAL),
        (b"SSH-2.0-x\r\n\r\n", Trouble.LOCAL),
        (b"HTTP/1.1 200 OK\r\n\r\nextra", Trouble.LOCAL),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 5_000, Trouble.LOCAL),
        (b"", Trouble.LOCAL),
    ],
)
async def test_a_refusal_of_the_proxy_is_not_the_endpoints(response: bytes, trouble: Trouble) -> None:
    """Only when the proxy says that it cannot connect, it is the endpoint's failure."""
    async with through(refusing(response)) as (_, sender):
        result = await sender.send(request("http://hook.test/"))
        assert (result.status, result.trouble) == (None, trouble)


@pytest.mark.parametrize("host", ["127.0.0.1", "proxy.test"])
async def test_a_proxy_that_is_not_there_is_our_trouble(host: str) -> None:
    """Without its proxy the sender blames no endpoint."""
    async with naming(hook_test=["127.0.0.1"]) as names:
        resolver = DnsResolver([names.address], hosts={})
        sender = HttpSender(LOOPBACK, proxy=Proxy(host, free_port()), resolver=resolver)
        result = await sender.send(request("http://hook.test/"))
        assert (result.trouble, result.detail) == (Trouble.LOCAL, "The egress proxy cannot be reached.")
        await sender.close()


async def test_a_proxy_that_hangs_is_left_at_the_deadline() -> None:
    """The deadline holds over the proxy as well."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with through(script) as (_, sender):
        result = await sender.send(request("http://hook.test/", timeout=0.3))
        assert result.trouble is Trouble.TIMEOUT
        assert result.latency < 0.8


def test_a_proxy_is_read_from_its_url() -> None:
    """Host, port and decoded credentials; the password is not shown."""
    assert Proxy.parse("http://10.0.0.1:3128") == Proxy("10.0.0.1", 3128)
    proxy = Proxy.parse("http://me:p%40ss@proxy.internal:3128/")
    assert proxy == Proxy("proxy.internal", 3128, "me", "p@ss")
    assert "p@ss" not in repr(proxy)


@pytest.mark.parametrize(
    "url", ["", "10.0.0.1:3128", "https://p:1", "http://p", "http://p:0", "http://p:x", "http://s3cret@:1/x"]
)
def test_a_proxy_that_cannot_be_read_is_refused(url: str) -> None:
    """The message shows the form, and not what was given: it may hold a password."""
    with pytest.raises(InvalidInput, match="http://host:port") as caught:
        Proxy.parse(url)
    assert "s3cret" not in str(caught.value)
