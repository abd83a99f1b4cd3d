"""TLS: verified always, and a failure says what was wrong."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
import trustme

from hookfuse.core.sending import SendResult, Trouble
from hookfuse.transport import DnsResolver, HttpSender
from tests.unit.transport.certificates import serving, trusting
from tests.unit.transport.nameserver import naming
from tests.unit.transport.receiver import LOOPBACK, OK, Receiver, answering, receiving, request, silent


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@asynccontextmanager
async def sending(context: ssl.SSLContext | None) -> AsyncIterator[HttpSender]:
    """A sender for which every name of the tests is on loopback."""
    async with naming(hook_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names:
        sender = HttpSender(LOOPBACK, resolver=DnsResolver([names.address], hosts={}), ssl_context=context)
        yield sender
        await sender.close()


async def send(context: ssl.SSLContext | None, server: ssl.SSLContext, host: str = "hook.test") -> SendResult:
    async with sending(context) as sender, receiving(answering(OK), tls=server) as receiver:
        return await sender.send(request(receiver.url(scheme="https", host=host)))


async def test_a_good_certificate_is_taken(ca: trustme.CA) -> None:
    """Over TLS requests are sent, answered and the connection kept; the name is sent along, HTTP/1.1 agreed upon."""
    seen: list[tuple[str | None, str | None]] = []

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((names[-1] if names else None, writer.get_extra_info("ssl_object").selected_alpn_protocol()))
        await answering(OK)(receiver, reader, writer)

    names: list[str | None] = []
    server = serving(ca.issue_cert("hook.test"))
    server.sni_callback = lambda _, name, __: names.append(name)
    async with sending(trusting(ca)) as sender, receiving(script, tls=server) as receiver:
        for _ in range(3):
            result = await sender.send(request(receiver.url(scheme="https", host="hook.test")))
            assert (result.status, result.body, result.trouble) == (200, b"ok", None)
    assert receiver.connections == 1
    assert seen == [("hook.test", "http/1.1")]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]"])
async def test_a_certificate_for_an_address_is_taken(ca: trustme.CA, host: str) -> None:
    """An address is verified as an address."""
    server = serving(ca.issue_cert(host.strip("[]")))
    async with (
        sending(trusting(ca)) as sender,
        receiving(answering(OK), tls=server, host=host.strip("[]")) as receiver,
    ):
        assert (await sender.send(request(receiver.url(scheme="https", host=host)))).status == 200


async def test_an_expired_certificate_is_refused(ca: trustme.CA) -> None:
    """A certificate of yesterday is a TLS failure that says so."""
    yesterday = datetime.now(UTC) - timedelta(days=1)
    old = ca.issue_cert("hook.test", not_before=yesterday - timedelta(days=1), not_after=yesterday)
    result = await send(trusting(ca), serving(old))
    assert (result.status, result.trouble) == (None, Trouble.TLS)
    assert "expired" in result.detail


async def test_a_certificate_for_another_name_is_refused(ca: trustme.CA) -> None:
    """The name in the URL must be in the certificate."""
    result = await send(trusting(ca), serving(ca.issue_cert("hook.test")), host="other.test")
    assert result.trouble is Trouble.TLS
    assert "another name" in result.detail
    result = await send(trusting(ca), serving(ca.issue_cert("hook.test")), host="127.0.0.1")
    assert "another address" in result.detail


async def test_an_unknown_authority_is_refused_by_default(ca: trustme.CA) -> None:
    """With no settings at all, certificates are verified by the system's roots."""
    result = await send(None, serving(ca.issue_cert("hook.test")))
    assert result.trouble is Trouble.TLS
    assert "certificate" in result.detail


async def test_a_self_signed_certificate_is_refused() -> None:
    """A certificate that signs itself is a TLS failure that says so."""
    own = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with own.cert_pem.tempfile() as cert, own.private_key_pem.tempfile() as key:
        context.load_cert_chain(cert, key)
    result = await send(None, context)
    assert result.trouble is Trouble.TLS
    assert "self-signed" in result.detail


async def test_a_server_without_tls_is_a_tls_failure() -> None:
    """Plain HTTP where TLS was asked for fails in the handshake."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with sending(None) as sender, receiving(script) as receiver:
        result = await sender.send(request(receiver.url(scheme="https")))
    assert result.trouble is Trouble.TLS
    assert "handshake" in result.detail


async def test_a_server_that_hangs_up_in_the_handshake_is_a_tls_failure() -> None:
    """A connection that ends before TLS stands is a TLS failure, not a refused connection."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with sending(None) as sender, receiving(script) as receiver:
        result = await sender.send(request(receiver.url(scheme="https")))
    assert (result.trouble, receiver.connections) == (Trouble.TLS, 1)


async def test_too_old_a_version_is_refused(ca: trustme.CA) -> None:
    """TLS below 1.2 is not spoken."""
    server = serving(ca.issue_cert("hook.test"))
    with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
        server.minimum_version = ssl.TLSVersion.TLSv1
    with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
        server.maximum_version = ssl.TLSVersion.TLSv1_1
    result = await send(trusting(ca), server)
    assert result.trouble is Trouble.TLS


async def test_what_is_no_tls_after_the_handshake_is_a_tls_failure(ca: trustme.CA) -> None:
    """Bytes that do not decrypt are never taken for an answer."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        os.write(writer.get_extra_info("socket").fileno(), OK)
        await reader.read()

    async with sending(trusting(ca)) as sender, receiving(script, tls=serving(ca.issue_cert("hook.test"))) as receiver:
        result = await sender.send(request(receiver.url(scheme="https", host="hook.test")))
    assert (result.status, result.trouble) == (None, Trouble.TLS)


async def test_over_tls_the_deadline_holds_and_the_end_is_prompt(ca: trustme.CA) -> None:
    """A silent endpoint behind TLS is left at the deadline, without a farewell to wait for."""
    async with sending(trusting(ca)) as sender, receiving(silent, tls=serving(ca.issue_cert("hook.test"))) as receiver:
        result = await sender.send(request(receiver.url(scheme="https", host="hook.test"), timeout=0.4))
        assert result.trouble is Trouble.TIMEOUT
        await asyncio.wait_for(receiver.left.wait(), 2)
