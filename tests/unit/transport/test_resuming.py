"""TLS sessions: which are resumed, for how long, and what that does not weaken."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from types import SimpleNamespace
from typing import cast

import pytest
import trustme

from hookfuse.core.addresses import Networks
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.transport import DnsResolver, HttpSender, Limits, Proxy
from hookfuse.transport.sessions import Handshake
from tests.unit.transport.certificates import serving, trusting
from tests.unit.transport.nameserver import naming
from tests.unit.transport.receiver import LOOPBACK, OK, Receiver, Script, answering, receiving, request
from tests.unit.transport.test_proxy import connecting

LEAVE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok"
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]
AN_HOUR = 3_600.0


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


class Server:
    """A server that ends each connection after one answer, and tells which of them were resumed."""

    def __init__(self, receiver: Receiver, context: ssl.SSLContext, resumed: list[bool | None]) -> None:
        self.receiver = receiver
        self.context = context
        self.resumed = resumed

    async def send(self, sender: HttpSender, host: str = "hook.test") -> SendResult:
        return await sender.send(request(self.receiver.url(scheme="https", host=host)))


@asynccontextmanager
async def server(context: ssl.SSLContext, script: Script | None = None, port: int = 0) -> AsyncIterator[Server]:
    resumed: list[bool | None] = []

    async def noting(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        await (script or answering(LEAVE))(receiver, reader, writer)

    async with receiving(noting, tls=context, host="0.0.0.0", port=port) as receiver:
        yield Server(receiver, context, resumed)


@asynccontextmanager
async def sending(
    ca: trustme.CA, *, context: ssl.SSLContext | None = None, proxy: Proxy | None = None, limits: Limits | None = None
) -> AsyncIterator[HttpSender]:
    """A sender for which every name of the tests is on loopback."""
    async with naming(hook_test=["127.0.0.1"], other_test=["127.0.0.1"]) as names:
        resolver = DnsResolver([names.address], hosts={})
        sender = HttpSender(
            LOOPBACK, resolver=resolver, ssl_context=context or trusting(ca), proxy=proxy, limits=limits
        )
        yield sender
        await sender.close()


def speaking(version: ssl.TLSVersion, certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = serving(certificate)
    context.minimum_version = context.maximum_version = version
    return context


def replace(server: Server, certificate: trustme.LeafCert) -> None:
    """Put another certificate in place, as a server does that goes on with its tickets."""
    certificate.configure_cert(server.context)


def outdated(ca: trustme.CA) -> trustme.LeafCert:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    return ca.issue_cert("hook.test", not_before=yesterday - timedelta(days=1), not_after=yesterday)


def after(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr("hookfuse.transport.sessions.monotonic", lambda: monotonic() + seconds)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_new_connection_resumes_the_session(ca: trustme.CA, version: ssl.TLSVersion) -> None:
    """After one full handshake with a host all its new connections are resumed, by the word of the server."""
    async with server(speaking(version, ca.issue_cert("hook.test"))) as peer, sending(ca) as sender:
        for _ in range(4):
            result = await peer.send(sender)
            assert (result.status, result.body, result.trouble) == (200, b"ok", None)
        many = await asyncio.gather(*(peer.send(sender) for _ in range(5)))
        assert {result.status for result in many} == {200}
        assert peer.resumed == [False] + [True] * 8


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_goes_through_the_tunnel(ca: trustme.CA, version: ssl.TLSVersion) -> None:
    """Behind the egress proxy sessions are resumed as well: they are the endpoint's."""
    async with (
        receiving(connecting) as proxy,
        server(speaking(version, ca.issue_cert("hook.test"))) as peer,
        sending(ca, proxy=Proxy("127.0.0.1", proxy.port)) as sender,
    ):
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, True]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_server_that_does_not_know_the_session_shakes_hands_in_full(
    monkeypatch: pytest.MonkeyPatch, ca: trustme.CA, version: ssl.TLSVersion
) -> None:
    """A server that lost its tickets, as at a restart, is sent to all the same, and resumed again after an hour."""
    port = 0
    async with sending(ca) as sender:
        for resumed in ([False, True, True], [False, False, False]):
            async with server(speaking(version, ca.issue_cert("hook.test")), port=port) as peer:
                port = peer.receiver.port
                for _ in range(3):
                    assert (await peer.send(sender)).status == 200
                assert peer.resumed == resumed
                after(monkeypatch, AN_HOUR)
                for _ in range(2):
                    assert (await peer.send(sender)).status == 200
                assert peer.resumed[3:] == [False, True]
                monkeypatch.undo()


async def test_a_server_without_tickets_shakes_hands_in_full(ca: trustme.CA) -> None:
    """A server that gives nothing to resume is asked for a full handshake each time."""
    context = speaking(ssl.TLSVersion.TLSv1_3, ca.issue_cert("hook.test"))
    context.num_tickets = 0
    async with server(context) as peer, sending(ca) as sender:
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, False]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_is_not_offered_to_another_name(ca: trustme.CA, version: ssl.TLSVersion) -> None:
    """With a session for one name, the same server under another name has to show a certificate for that one."""
    async with server(speaking(version, ca.issue_cert("hook.test"))) as peer, sending(ca) as sender:
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        for host in ("other.test", "127.0.0.1"):
            result = await peer.send(sender, host)
            assert (result.status, result.trouble) == (None, Trouble.TLS)
            assert "is for another" in result.detail
        replace(peer, ca.issue_cert("hook.test", "other.test"))
        assert (await peer.send(sender, "other.test")).status == 200
        assert (await peer.send(sender)).status == 200
        assert peer.resumed[-2:] == [False, True]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_bad_certificate_is_found_out_within_an_hour(
    monkeypatch: pytest.MonkeyPatch, ca: trustme.CA, version: ssl.TLSVersion
) -> None:
    """A session is resumed for an hour after the certificate was seen, however often; then it has to be shown."""
    async with server(speaking(version, ca.issue_cert("hook.test"))) as peer, sending(ca) as sender:
        assert (await peer.send(sender)).status == 200
        replace(peer, outdated(ca))
        for minutes in (20, 40, 59):
            after(monkeypatch, minutes * 60)
            assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, True, True, True]
        after(monkeypatch, AN_HOUR)
        for _ in range(2):
            result = await peer.send(sender)
            assert (result.status, result.trouble) == (None, Trouble.TLS)
            assert "expired" in result.detail
        replace(peer, ca.issue_cert("hook.test"))
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        assert peer.resumed[-2:] == [False, True]


async def test_a_bad_certificate_leaves_no_session(ca: trustme.CA) -> None:
    """What was refused once is refused again: nothing of it is kept to go on with."""
    async with server(serving(outdated(ca))) as peer, sending(ca) as sender:
        for _ in range(3):
            assert (await peer.send(sender)).trouble is Trouble.TLS


async def test_a_session_that_fails_is_forgotten(ca: trustme.CA) -> None:
    """If a handshake with a session fails, the next one is a full one."""
    hangs_up = False

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if hangs_up:
            await reader.read(1)
        else:
            await relay(receiver, reader, writer)

    async with server(serving(ca.issue_cert("hook.test"))) as peer, sending(ca) as sender:
        relay = _to(peer.receiver.port)
        async with receiving(script) as front:
            url = front.url(scheme="https", host="hook.test")
            for _ in range(2):
                assert (await sender.send(request(url))).status == 200
            hangs_up = True
            assert (await sender.send(request(url))).trouble is Trouble.TLS
            hangs_up = False
            assert (await sender.send(request(url))).status == 200
        assert peer.resumed == [False, True, False]


def _to(port: int) -> Script:
    """Go on to another server."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)

        async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            while data := await source.read(65_536):
                target.write(data)

        copies = [asyncio.create_task(copy(reader, back)), asyncio.create_task(copy(there, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            back.transport.abort()
            for each in copies:
                each.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    return script


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_session_without_an_answer_is_forgotten(ca: trustme.CA, version: ssl.TLSVersion) -> None:
    """A server that resumes and then breaks may only be unable to resume, so it is asked for a full handshake next."""

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if peer.resumed[-1]:
            await receiver.read(reader)
            os.write(writer.get_extra_info("socket").fileno(), OK)
        else:
            await answering(LEAVE)(receiver, reader, writer)

    async with server(speaking(version, ca.issue_cert("hook.test")), script) as peer, sending(ca) as sender:
        troubles = [(await peer.send(sender)).trouble for _ in range(4)]
        assert troubles == [None, Trouble.TLS, None, Trouble.TLS]
        assert peer.resumed == [False, True, False, True]


async def test_a_blocked_host_keeps_no_session(ca: trustme.CA) -> None:
    """What must not be dialled is forgotten altogether."""
    async with server(serving(ca.issue_cert("hook.test"))) as peer, sending(ca) as sender:
        assert (await peer.send(sender)).status == 200
        sender.networks = Networks(allowed=("127.0.0.0/8",), forbidden=("127.0.0.1/32",))
        assert (await peer.send(sender)).trouble is Trouble.BLOCKED
        sender.networks = LOOPBACK
        assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, False]


async def test_an_answer_that_comes_after_a_block_brings_no_session(ca: trustme.CA) -> None:
    """What was under way when the destination was blocked is not remembered either."""
    allowed = asyncio.Event()

    async def script(receiver: Receiver, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await receiver.read(reader)
        await allowed.wait()
        writer.write(LEAVE)
        await writer.drain()

    async with server(serving(ca.issue_cert("hook.test")), script) as peer, sending(ca) as sender:
        under_way = asyncio.create_task(peer.send(sender))
        await peer.receiver.arrived.wait()
        sender.networks = Networks(allowed=("127.0.0.0/8",), forbidden=("127.0.0.1/32",))
        assert (await peer.send(sender)).trouble is Trouble.BLOCKED
        allowed.set()
        assert (await under_way).status == 200
        sender.networks = LOOPBACK
        assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, False]


@pytest.mark.parametrize("limits", [Limits(sessions=2), Limits(hosts=2)])
async def test_remembered_sessions_are_bounded(ca: trustme.CA, limits: Limits) -> None:
    """Beyond their number, or with its host, the session goes that was not used for longest."""
    hosts = [f"127.0.0.{last}" for last in (1, 2, 3)]
    async with server(serving(ca.issue_cert(*hosts))) as peer, sending(ca, limits=limits) as sender:
        for host in (*hosts, *hosts[::-1]):
            assert (await peer.send(sender, host)).status == 200
        assert peer.resumed == [False, False, False, True, True, False]


async def test_nobody_has_to_resume(ca: trustme.CA) -> None:
    """Without room for sessions every connection begins with a full handshake."""
    async with server(serving(ca.issue_cert("hook.test"))) as peer, sending(ca, limits=Limits(sessions=0)) as sender:
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, False]


@pytest.mark.parametrize(("said", "lasts"), [(300, 300.0), (0, AN_HOUR), (7_200, AN_HOUR)])
def test_a_session_lasts_no_longer_than_its_ticket(
    monkeypatch: pytest.MonkeyPatch, ca: trustme.CA, said: int, lasts: float
) -> None:
    """A server that says how long its ticket lasts is taken at its word, within the hour."""
    monkeypatch.setattr("hookfuse.transport.sessions.monotonic", lambda: 0.0)
    ticket = SimpleNamespace(id=b"1", ticket_lifetime_hint=said)
    tls = SimpleNamespace(session=ticket, beside=0, pending=lambda: 0, version=lambda: "TLSv1.3")
    handshake = Handshake(cast("ssl.SSLContext", SimpleNamespace(wrap_bio=lambda *_: tls)), None)
    handshake.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    assert handshake.session().until == lasts


async def test_a_server_that_begins_another_handshake_has_answered(
    monkeypatch: pytest.MonkeyPatch, ca: trustme.CA
) -> None:
    """With its answer a server may begin a new handshake: the answer counts, and no session is taken in its midst."""
    # What OpenSSL says then.
    monkeypatch.setattr(ssl.SSLObject, "version", lambda tls: None)
    async with server(serving(ca.issue_cert("hook.test"))) as peer, sending(ca) as sender:
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, False]


async def test_a_session_is_of_its_sender(ca: trustme.CA) -> None:
    """Another sender, with other roots, begins with a full handshake and refuses what it does not trust."""
    async with server(serving(ca.issue_cert("hook.test"))) as peer:
        async with sending(ca) as sender:
            for _ in range(2):
                assert (await peer.send(sender)).status == 200
        async with sending(ca, context=trusting(trustme.CA())) as stranger:
            assert (await peer.send(stranger)).trouble is Trouble.TLS


async def test_a_huge_certificate_is_not_remembered(ca: trustme.CA) -> None:
    """A session holds its server's certificate, so that of a very large one is not kept."""
    names = [f"{number:060}.test" for number in range(300)]
    async with server(serving(ca.issue_cert("hook.test", *names))) as peer, sending(ca) as sender:
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, False]


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_huge_ticket_is_not_remembered(ca: trustme.CA, version: ssl.TLSVersion) -> None:
    """A session holds its ticket, into which a server may put what it likes: here it is the client's certificate."""
    context = speaking(version, ca.issue_cert("hook.test"))
    context.verify_mode = ssl.CERT_OPTIONAL
    ca.configure_trust(context)
    ours = trusting(ca)
    ca.issue_cert(*[f"{number:060}.test" for number in range(300)]).configure_cert(ours)
    async with server(context) as peer, sending(ca, context=ours) as sender:
        for _ in range(2):
            assert (await peer.send(sender)).status == 200
        assert peer.resumed == [False, False]


async def test_a_huge_answer_is_no_huge_session(ca: trustme.CA) -> None:
    """A response that is cut leaves data behind, which does not count as a part of the session."""
    huge = answering(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n" + b"x" * 200_000)
    async with server(serving(ca.issue_cert("hook.test")), huge) as peer, sending(ca) as sender:
        for _ in range(2):
            assert (await peer.send(sender)).truncated
        assert peer.resumed == [False, True]
