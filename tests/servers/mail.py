"""A real mail server on loopback, and servers that only look like one."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

USER, PASSWORD = "hook", "s3cret \u00e9"


@dataclass
class Inbox:
    """What the server took."""

    port: int = 0
    envelopes: list[Envelope] = field(default_factory=list)
    tls: list[bool] = field(default_factory=list)
    logins: list[tuple[bytes, bytes]] = field(default_factory=list)
    refuses: str = ""
    """A recipient that it does not know."""

    @property
    def mails(self) -> list[EmailMessage]:
        return [message_from_bytes(_content(each), policy=default) for each in self.envelopes]

    @property
    def contents(self) -> list[bytes]:
        return [_content(each) for each in self.envelopes]

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address == self.refuses:
            return "550 nobody of that name"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.envelopes.append(envelope)
        self.tls.append(session.ssl is not None)
        return "250 taken"

    def authenticate(self, server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        self.logins.append((data.login, data.password))
        return AuthResult(success=(data.login, data.password) == (USER.encode(), PASSWORD.encode()), handled=False)


class _Session(SMTP):
    """Its transport is closed by whoever opened the server: after STARTTLS it forgets the one beneath."""

    def __init__(self, opened: list[asyncio.Transport], *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._opened.append(transport)
        super().connection_made(transport)


def _content(envelope: Envelope) -> bytes:
    assert isinstance(envelope.content, bytes)
    return envelope.content


@contextmanager
def mail_server(
    *,
    starttls: ssl.SSLContext | None = None,
    tls: ssl.SSLContext | None = None,
    auth: bool = False,
    without: tuple[str, ...] = (),
) -> Iterator[Inbox]:
    """In a thread with an event loop of its own. `without` are ways to log in that it does not offer."""
    inbox = Inbox()
    settings: dict[str, Any] = {"tls_context": starttls, "auth_require_tls": starttls is not None}
    if auth:
        settings |= {"authenticator": inbox.authenticate, "auth_exclude_mechanism": without}
    opened: list[asyncio.Transport] = []
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="mail-server", daemon=True)
    thread.start()

    # A client that has gone may not have said farewell in TLS; half a minute is waited for that by default.
    farewell = 0.1 if tls is not None else None

    async def start() -> asyncio.Server:
        return await loop.create_server(
            lambda: _Session(opened, inbox, hostname="test", loop=loop, **settings),
            "127.0.0.1",
            0,
            ssl=tls,
            ssl_shutdown_timeout=farewell,
        )

    async def stop() -> None:
        # Begun before `close`, it ends when the last socket has: Python 3.11 waits for nothing afterwards.
        closed = asyncio.create_task(server.wait_closed())
        await asyncio.sleep(0)
        server.close()
        for transport in opened:
            transport.abort()
        for task in asyncio.all_tasks() - {asyncio.current_task(), closed}:
            task.cancel()
        async with asyncio.timeout(10):
            await closed

    server = asyncio.run_coroutine_threadsafe(start(), loop).result()
    inbox.port = server.sockets[0].getsockname()[1]
    try:
        yield inbox
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
