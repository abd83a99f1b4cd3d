"""TLS sessions: a server that was verified a while ago need not be verified again.

To resume a session costs us a third of a full handshake with TLS 1.2, and less than half with TLS 1.3. The certificate
is not looked at in it: who can resume is who was verified when the session began. So a session is offered only to the
host and port that it is from, for an hour at most, and it is never renewed by being resumed. By then a certificate that
has expired or was replaced is found out.

Python copies a session when it is taken and when it is offered, each for a sixth of a full handshake. So it is taken
once in its time, and a server that does not resume what it is offered is left alone for as long.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from time import monotonic
from typing import Final, NamedTuple, cast

from hookfuse.transport.tls import Metered

_AN_HOUR: Final = 3_600.0
_LARGEST: Final = 16_384
"""Bytes of a handshake and the tickets after it. A session holds the certificate of its server and a ticket, which may
have 64 KiB, and servers may be strangers with a thousand names each."""


class Session(NamedTuple):
    """What a server gave us to resume, if it is one that does."""

    ticket: ssl.SSLSession | None
    until: float
    """Monotonic."""


class Handshake:
    """The context of one connection.

    Event loops take no session. But all that they ask of a context is a TLS object, and here it is given one.
    """

    def __init__(self, context: ssl.SSLContext, offered: Session | None) -> None:
        # What the context makes then; nobody else notices.
        context.sslobject_class = Metered
        self._context = context
        self._offered = offered
        self._began = monotonic()

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | None = None,
    ) -> ssl.SSLObject:
        ticket = None if self._offered is None else self._offered.ticket
        self._object = cast("Metered", self._context.wrap_bio(incoming, outgoing, server_side, server_hostname, ticket))
        self._object.incoming = incoming
        return self._object

    def session(self) -> Session:
        """What the next connection offers. With TLS 1.3 it comes after the handshake: ask once there is an answer."""
        if self._offered is None:
            return self._taken()
        if self._offered.ticket is None or self._object.session_reused:
            return self._offered
        return Session(None, self._began + _AN_HOUR)

    def _taken(self) -> Session:
        # Without a version it is in the midst of another handshake, which a server may begin together with its answer
        # (or so it looks when a ticket is cut in two): the session may be of one that is not verified yet.
        ticket = None if self._object.version() is None else self._object.session
        # What is pending is data of a response that was cut. A session without an id cannot be resumed.
        if ticket is None or not ticket.id or self._object.beside - self._object.pending() > _LARGEST:
            return Session(None, self._began + _AN_HOUR)
        return Session(ticket, self._began + min(ticket.ticket_lifetime_hint or _AN_HOUR, _AN_HOUR))


class Sessions:
    """Those of the last hosts that were dialled. They belong to the context with which they were made."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[str, int], Session] = OrderedDict()

    def of(self, host: str, port: int) -> Session | None:
        session = self._kept.get((host, port))
        return session if session is not None and monotonic() < session.until else None

    def keep(self, host: str, port: int, session: Session) -> None:
        self._kept[host, port] = session
        self._kept.move_to_end((host, port))
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)

    def forget(self, host: str, port: int) -> None:
        self._kept.pop((host, port), None)
