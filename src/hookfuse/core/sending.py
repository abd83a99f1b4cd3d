"""One request to an endpoint, and what came of it, as values."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from hookfuse.core.destination import Destination


class Trouble(StrEnum):
    """Why there is no whole response. Those of our own making say nothing about the endpoint."""

    BLOCKED = "destination_blocked"
    """The address is not one that we dial. No packet left."""
    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    """The total deadline, wherever it struck."""
    DISCONNECTED = "disconnected"
    """The connection ended before the response did."""
    PROTOCOL = "protocol"
    """The response is not HTTP/1.x, or larger than we read."""
    LOCAL = "local"
    """Our own fault: no file descriptors, no network, no egress proxy."""

    @property
    def ours(self) -> bool:
        return self in (Trouble.BLOCKED, Trouble.LOCAL)


class Request(NamedTuple):
    """One POST."""

    destination: Destination
    headers: tuple[tuple[str, str], ...]
    body: bytes
    timeout: float
    """Seconds for everything: DNS, connect, TLS, sending, and the whole response."""
    anew: bool = False
    """A kept connection was lost under it already, so it goes on a new one."""


class SendResult(NamedTuple):
    """What came of a request: a status, or a trouble."""

    status: int | None
    trouble: Trouble | None
    latency: float
    """Seconds; 0 if nothing was tried."""
    headers: tuple[tuple[str, str], ...] = ()
    """Names in lower case; those of a success are not kept."""
    body: bytes = b""
    """At most 64 KiB, as received, never decompressed."""
    truncated: bool = False
    detail: str = ""
    """What went wrong, for people; never a resolved address."""

    @property
    def succeeded(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    def header(self, name: str) -> str | None:
        """The first header of this name, in lower case."""
        return next((value for known, value in self.headers if known == name), None)
