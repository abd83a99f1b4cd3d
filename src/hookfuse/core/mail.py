"""E-mail as values: addresses that nobody can smuggle anything into, the server, a mail, and what came of it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from hookfuse.errors import InvalidField, InvalidInput

MOST_RECIPIENTS: Final = 20

# The plain part of what RFC 5321 allows: no quotes, no comments, nothing outside of ASCII.
_LOCAL: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"(?=.{{3,254}}\Z)(?=[^@]{{1,64}}@){_LOCAL}@{_LABEL}(\.{_LABEL})*", re.ASCII)
_SECRET: Final = re.compile(r"[^\x00-\x1f\x7f]*")
_FORM: Final = "A mail server is given as smtp://user:password@host:587, or smtps://… for TLS from the first byte on."
_PORTS: Final = {"smtp": 587, "smtps": 465}


def check_address(text: object, name: str = "email") -> str:
    """An e-mail address, or an error that says what one is."""
    if not isinstance(text, str) or not _ADDRESS.fullmatch(text):
        raise InvalidField(name, "be an e-mail address such as ops@example.com", text)
    return text


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mails are handed over. A password is sent over TLS only; without one TLS is used if it is offered."""

    host: str
    port: int
    tls: bool
    """From the first byte on; else by STARTTLS."""
    username: str = ""
    password: str = field(default="", repr=False)

    @staticmethod
    def parse(url: str) -> MailServer:
        """What was given instead is not repeated: it may hold a password."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise InvalidInput(_FORM) from None
        username, password = unquote(parts.username or ""), unquote(parts.password or "")
        strange = parts.path not in ("", "/") or parts.query or parts.fragment
        if parts.scheme not in _PORTS or not host or port == 0 or strange or bool(username) is not bool(password):
            raise InvalidInput(_FORM)
        if not _SECRET.fullmatch(username + password):
            raise InvalidInput(_FORM)
        return MailServer(host, port or _PORTS[parts.scheme], parts.scheme == "smtps", username, password)


@dataclass(frozen=True, slots=True)
class Mail:
    sender: str
    to: tuple[str, ...]
    content: bytes
    """Headers and body, with lines that end in CR LF."""


@dataclass(frozen=True, slots=True)
class Mailed:
    """What came of a mail: the server took it, or `trouble` says why not."""

    trouble: str = ""

    @property
    def taken(self) -> bool:
        return not self.trouble


@dataclass(frozen=True, slots=True)
class MailLook:
    """How a server stands, without a mail: it would take one, or `trouble` says why not."""

    trouble: str = ""
    encrypted: bool = False
    """Whether it was reached over TLS."""
