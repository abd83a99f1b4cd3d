"""Hands mails to a server: SMTP with STARTTLS or TLS, and AUTH PLAIN or LOGIN, under one deadline.

The server's addresses are vetted as those of endpoints are, but for the port. What it says is read within bounds, and
a reply that came before TLS was on is never taken for one that came after.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from hookfuse.core.addresses import Address, Networks, Verdict, parse_address
from hookfuse.core.mail import Mail, Mailed, MailLook, MailServer
from hookfuse.transport.dialer import Dialer
from hookfuse.transport.guard import vet
from hookfuse.transport.limits import Limits
from hookfuse.transport.proxy import Proxy
from hookfuse.transport.resolver import Answer, DnsResolver, Resolver
from hookfuse.transport.smtp_wire import Broken, PlainWire, TlsWire, Wire
from hookfuse.transport.tls import tls_failure
from hookfuse.transport.troubles import Failure

DEADLINE: Final = 10.0

_PORTS: Final = frozenset((25, 465, 587))
_REPLY: Final = re.compile(rb"([2-5][0-9]{2})([ -]?)([^\r\n]*)\r?\n")
_MOST_LINES: Final = 100
_SAID_BYTES: Final = 200


class _Refused(Exception):
    """The server said no, or nothing that we understand; the text is for people."""


class _Reply(NamedTuple):
    code: int
    lines: tuple[str, ...]


class _MailGuard:
    """The networks that may be dialled; the ports of mail, which endpoints may not have, are what this is for."""

    def __init__(self, networks: Networks) -> None:
        self._networks = networks

    def verdict(self, address: Address, port: int) -> Verdict | None:
        found = self._networks.verdict(address, port)
        return None if found is Verdict.PORT and port in _PORTS else found


class SmtpMailer:
    """Hands mails to one server, each on a connection of its own."""

    def __init__(
        self,
        server: MailServer,
        networks: Networks,
        *,
        proxy: Proxy | None = None,
        resolver: Resolver | None = None,
        ssl_context: ssl.SSLContext | None = None,
        deadline: float = DEADLINE,
    ) -> None:
        self._server = server
        self._guard = _MailGuard(networks)
        self._resolver = resolver or DnsResolver()
        self._dialer = Dialer(Limits(), self._resolver, proxy, None)
        self._ssl_context = ssl_context
        self._deadline = deadline

    async def send(self, mail: Mail) -> Mailed:
        """Whatever goes wrong is in the result."""
        try:
            async with asyncio.timeout(self._deadline):
                return await self._send(mail)
        except TimeoutError:
            return Mailed(f"the mail server did not take it within {self._deadline:g} s")

    async def look(self) -> MailLook:
        """Connect, go over to TLS and log in, as for a mail, and take leave."""
        try:
            async with asyncio.timeout(self._deadline):
                trouble, encrypted = await self._talk(_take_leave)
        except TimeoutError:
            return MailLook(f"no answer within {self._deadline:g} s")
        return MailLook(trouble, encrypted)

    async def close(self) -> None:
        await self._resolver.close()

    async def _send(self, mail: Mail) -> Mailed:
        trouble, _ = await self._talk(lambda talk: _hand_over(talk, mail))
        return Mailed(trouble)

    async def _talk(self, say: Callable[[_Talk], Awaitable[None]]) -> tuple[str, bool]:
        """Say something once the server listens; returns what went wrong, and whether it was said over TLS."""
        wire = await self._connect()
        if isinstance(wire, Failure):
            return f"{wire.trouble}: {wire.detail}", False
        talk = _Talk(wire)
        try:
            await self._begin(talk)
            await say(talk)
        except _Refused as refused:
            return f"the mail server refused: {refused}", talk.encrypted
        except Broken as broken:
            return str(broken), talk.encrypted
        except ssl.SSLError as error:
            return tls_failure(error).detail, talk.encrypted
        except OSError:
            return "the connection broke", talk.encrypted
        finally:
            talk.wire.close()
        return "", talk.encrypted

    async def _connect(self) -> Wire | Failure:
        server = self._server
        literal = parse_address(server.host)
        found = Answer((literal,), None, 0) if literal else await self._resolver.lookup(server.host)
        answer = vet(found, server.port, self._guard)
        if answer.failure is not None:
            return answer.failure
        opened = await self._dialer.open(answer.addresses, server.port, self._guard)
        if isinstance(opened, Failure):
            return opened
        plain = PlainWire(opened.socket)
        if not server.tls:
            return plain
        try:
            return await TlsWire.over(plain, self._context(), server.host)
        except OSError as error:
            return tls_failure(error)

    async def _begin(self, talk: _Talk) -> None:
        """Greet, go over to TLS, and say who we are."""
        server = self._server
        await talk.expect(220)
        offers = await talk.greet()
        if not server.tls and "STARTTLS" in offers:
            await talk.say("STARTTLS", 220)
            talk.wire = await TlsWire.over(talk.wire, self._context(), server.host)
            offers = await talk.greet()
        elif not server.tls and server.username:
            raise _Refused("it offers no TLS, and a password is not sent without")
        if server.username:
            await _log_in(talk, server, offers.get("AUTH", "").upper().split())

    def _context(self) -> ssl.SSLContext:
        if self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
        return self._ssl_context


class _Talk:
    """Commands and replies."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    @property
    def encrypted(self) -> bool:
        return isinstance(self.wire, TlsWire)

    async def greet(self) -> dict[str, str]:
        """What the server offers, by name."""
        reply = await self.say("EHLO hookfuse.invalid", 250)
        return {name.upper(): rest for name, _, rest in (line.partition(" ") for line in reply.lines[1:])}

    async def say(self, command: str, *expected: int, hidden: bool = False) -> _Reply:
        await self.wire.write(f"{command}\r\n".encode("ascii"))
        return await self.expect(*expected, hidden=hidden)

    async def expect(self, *expected: int, hidden: bool = False) -> _Reply:
        reply = await self._reply()
        if reply.code not in expected:
            # What a server says to credentials may repeat them.
            raise _Refused(str(reply.code) if hidden else f"{reply.code} {reply.lines[-1][:_SAID_BYTES]}")
        return reply

    async def _reply(self) -> _Reply:
        lines: list[str] = []
        for _ in range(_MOST_LINES):
            found = _REPLY.fullmatch(await self.wire.line())
            if not found:
                raise _Refused("it did not answer in SMTP")
            lines.append(found[3].decode("utf-8", "replace"))
            if found[2] != b"-":
                return _Reply(int(found[1]), tuple(lines))
        raise _Refused("its answer has no end")


async def _log_in(talk: _Talk, server: MailServer, ways: list[str]) -> None:
    if "PLAIN" in ways:
        secret = f"\0{server.username}\0{server.password}".encode()
        await talk.say(f"AUTH PLAIN {b64encode(secret).decode()}", 235, hidden=True)
    elif "LOGIN" in ways:
        await talk.say("AUTH LOGIN", 334)
        await talk.say(b64encode(server.username.encode()).decode(), 334, hidden=True)
        await talk.say(b64encode(server.password.encode()).decode(), 235, hidden=True)
    else:
        raise _Refused("it takes neither AUTH PLAIN nor AUTH LOGIN")


async def _hand_over(talk: _Talk, mail: Mail) -> None:
    await talk.say(f"MAIL FROM:<{mail.sender}>", 250)
    refusals = []
    for address in mail.to:
        try:
            await talk.say(f"RCPT TO:<{address}>", 250, 251, 252)
        except _Refused as refused:
            refusals.append(refused)
    if len(refusals) == len(mail.to):
        raise refusals[0]
    await talk.say("DATA", 354)
    await talk.wire.write(_stuffed(mail.content))
    await talk.expect(250)
    # It is theirs now; whether they hear the farewell changes nothing.
    await talk.wire.write(b"QUIT\r\n")


async def _take_leave(talk: _Talk) -> None:
    await talk.say("QUIT", 221)


def _stuffed(content: bytes) -> bytes:
    """As DATA wants it: a line that begins with a dot gets another, and one dot alone is the end."""
    body = content if content.endswith(b"\r\n") else content + b"\r\n"
    dotted = body.replace(b"\r\n.", b"\r\n..")
    return (b"." if dotted.startswith(b".") else b"") + dotted + b".\r\n"
