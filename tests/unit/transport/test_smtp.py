"""Mails reach a real server, over TLS where there is a password, and nothing that a server does holds us up."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trustme

from hookfuse.core.addresses import Networks
from hookfuse.core.mail import Mail, MailLook, MailServer
from hookfuse.transport import SmtpMailer
from hookfuse.transport.smtp import _stuffed
from tests.servers.mail import PASSWORD, USER, mail_server

LOOPBACK = Networks(allowed=("127.0.0.0/8",))
CONTENT = b"Subject: hello\r\n\r\n.hidden\r\n..\r\nlast"
MAIL = Mail("from@example.com", ("one@example.com", "two@example.com"), CONTENT)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def serving(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@asynccontextmanager
async def mailer(port: int, networks: Networks = LOOPBACK, **settings: Any) -> AsyncIterator[SmtpMailer]:
    server = MailServer("127.0.0.1", port, settings.pop("tls", False), *settings.pop("login", ()))
    made = SmtpMailer(server, networks, **{"deadline": 5.0, **settings})
    try:
        yield made
    finally:
        await made.close()


async def test_a_plain_server() -> None:
    """A mail arrives whole, with its dots, for all its recipients; there is no TLS where none is offered."""
    with mail_server() as inbox:
        async with mailer(inbox.port) as found:
            assert (await found.send(MAIL)).taken
        (envelope,) = inbox.envelopes
        assert envelope.mail_from == "from@example.com"
        assert envelope.rcpt_tos == list(MAIL.to)
        assert inbox.contents == [CONTENT + b"\r\n"]


@pytest.mark.parametrize("without", [(), ("PLAIN",)], ids=["plain", "login"])
async def test_starttls_and_a_password(
    authority: trustme.CA, serving: ssl.SSLContext, without: tuple[str, ...]
) -> None:
    """A password goes over TLS only, by AUTH PLAIN or by AUTH LOGIN."""
    with mail_server(starttls=serving, auth=True, without=without) as inbox:
        async with mailer(inbox.port, login=(USER, PASSWORD), ssl_context=trusting(authority)) as found:
            result = await found.send(MAIL)
        assert result.taken, result
        assert inbox.tls == [True]
        assert inbox.logins == [(USER.encode(), PASSWORD.encode())]


async def test_tls_from_the_first_byte_on(authority: trustme.CA, serving: ssl.SSLContext) -> None:
    """`smtps` speaks TLS at once."""
    with mail_server(tls=serving) as inbox:
        async with mailer(inbox.port, tls=True, ssl_context=trusting(authority)) as found:
            result = await found.send(MAIL)
        assert result.taken, result
        assert len(inbox.envelopes) == 1


async def test_a_wrong_password_is_not_repeated(authority: trustme.CA, serving: ssl.SSLContext) -> None:
    """What is told of a refused login holds neither the name nor the password."""
    with mail_server(starttls=serving, auth=True) as inbox:
        async with mailer(inbox.port, login=(USER, "wrong-one"), ssl_context=trusting(authority)) as found:
            result = await found.send(MAIL)
        assert result.trouble == "the mail server refused: 535"
        assert not inbox.envelopes


async def test_no_password_without_tls() -> None:
    """A server that offers no TLS is not told the password, whatever it offers instead."""
    with mail_server(auth=True) as inbox:
        async with mailer(inbox.port, login=(USER, PASSWORD)) as found:
            result = await found.send(MAIL)
        assert "a password is not sent without" in result.trouble
        assert not inbox.logins


async def test_an_unknown_certificate(serving: ssl.SSLContext) -> None:
    """A certificate that nobody trusts is refused, before and after STARTTLS."""
    with mail_server(starttls=serving) as inbox:
        async with mailer(inbox.port) as found:
            assert "certificate" in (await found.send(MAIL)).trouble.lower()
        assert not inbox.envelopes
    with mail_server(tls=serving) as inbox:
        async with mailer(inbox.port, tls=True) as found:
            assert "tls" in (await found.send(MAIL)).trouble


async def test_recipients_that_are_refused() -> None:
    """A mail goes to those that the server knows; if it knows none, that is told."""
    with mail_server() as inbox:
        inbox.refuses = "one@example.com"
        async with mailer(inbox.port) as found:
            assert (await found.send(MAIL)).taken
            assert inbox.envelopes[0].rcpt_tos == ["two@example.com"]
            lonely = Mail(MAIL.sender, MAIL.to[:1], CONTENT)
            assert (await found.send(lonely)).trouble == "the mail server refused: 550 nobody of that name"


async def test_the_guard() -> None:
    """A mail server in a network that is not allowed is never dialled, and link-local ones never at all."""
    with mail_server() as inbox:
        async with mailer(inbox.port, Networks()) as found:
            assert "destination_blocked" in (await found.send(MAIL)).trouble
    metadata = MailServer("169.254.169.254", 25, tls=False)
    made = SmtpMailer(metadata, Networks(allowed=("0.0.0.0/0",)), deadline=5.0)
    assert "destination_blocked" in (await made.send(MAIL)).trouble
    await made.close()


@asynccontextmanager
async def saying(*lines: bytes, hangs: bool = False) -> AsyncIterator[int]:
    """A server that says these lines, one for each that it hears, and then closes or says no more."""
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for line in lines:
            writer.write(line)
            await reader.readline()
        if hangs:
            await ended.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        ended.set()
        server.close()
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((), "closed the connection"),
        ((b"HTTP/1.1 400 Bad Request\r\n",), "did not answer in SMTP"),
        ((b"220 " + b"x" * 10_000,), "lines are too long"),
        ((b"220-x\r\n" * 200,), "no end"),
        ((b"220 hi\r\n", b"250-me\r\n250 STARTTLS\r\n", b"220 go\r\n250 forged\r\n"), "spoke before TLS"),
        ((b"220 hi\r\n", b"250 me\r\n", b"451 later\r\n"), "451 later"),
    ],
)
async def test_servers_that_make_no_sense(lines: tuple[bytes, ...], says: str) -> None:
    """Whatever a server says, it ends as a trouble in words; what is said before TLS is not taken for TLS."""
    async with saying(*lines) as port, mailer(port) as found:
        assert says in (await found.send(MAIL)).trouble


async def test_a_server_that_hangs() -> None:
    """A server that says no more is left when the deadline is over."""
    async with saying(b"220 hi\r\n", hangs=True) as port, mailer(port, deadline=0.2) as found:
        began = asyncio.get_running_loop().time()
        assert "within 0.2 s" in (await found.send(MAIL)).trouble
        assert asyncio.get_running_loop().time() - began < 2


async def test_nobody_listens() -> None:
    """A port that nobody listens on is a trouble too."""
    async with saying() as port:
        pass
    async with mailer(port) as found:
        assert (await found.send(MAIL)).trouble.startswith("connect")


def test_dots() -> None:
    """A line that begins with a dot gets one more, the first line too, and the end is one dot alone."""
    assert _stuffed(b".a\r\n.\r\nb") == b"..a\r\n..\r\nb\r\n.\r\n"


async def test_a_look_at_a_server(authority: trustme.CA, serving: ssl.SSLContext) -> None:
    """A look goes as far as a mail would, hands over none, and says whether the way is encrypted."""
    login = (USER, PASSWORD)
    with mail_server() as inbox:
        async with mailer(inbox.port) as found:
            assert await found.look() == MailLook("", encrypted=False)
        async with mailer(inbox.port, login=login) as found:
            assert "no TLS" in (await found.look()).trouble
    with mail_server(starttls=serving, auth=True) as inbox:
        async with mailer(inbox.port, login=login, ssl_context=trusting(authority)) as found:
            assert await found.look() == MailLook("", encrypted=True)
        async with mailer(inbox.port, login=(USER, "wrong"), ssl_context=trusting(authority)) as found:
            assert (await found.look()).trouble == "the mail server refused: 535"
        async with mailer(inbox.port) as found:
            assert "certificate" in (await found.look()).trouble
        assert inbox.envelopes == []
    async with mailer(1) as found:
        assert (await found.look()).trouble.startswith("connect")
    async with mailer(25, Networks()) as found:
        assert (await found.look()).trouble.startswith("destination_blocked")
