"""How much of anything the sender takes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from hookfuse.errors import InvalidInput, shown

RECEIVE_BYTES: Final = 65_536
"""The receive buffer that a socket asks for. The system doubles it for its own needs, but does not let it grow: a peer
that sends without end fills no more of our memory, and one read below TLS brings no more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults suit a worker with a few thousand file descriptors."""

    response_bytes: int = 65_536
    """Of a response: status line, headers and body, with the interim responses before it. What is beyond is not read:
    the connection is closed, and the status counts if the headers were complete."""
    head_lines: int = 100
    interim: int = 8
    """Responses with a status of 1xx before the real one."""
    idle_seconds: float = 4.0
    """How long a connection is kept. Below the five seconds after which most servers close theirs."""
    idle_longest: float = 60.0
    """How long at most, if the endpoint says by `Keep-Alive: timeout=…` that it keeps connections for longer."""
    idle_per_host: int = 1_024
    idle_total: int = 2_048
    """Beyond it the connection goes that was idle for longest."""
    hosts: int = 20_000
    """Hosts whose vetted addresses are remembered."""
    sessions: int = 4_096
    """Hosts whose TLS sessions are remembered, at about 8 KiB each. With 0 every handshake is a full one."""
    addresses: int = 4
    """How many addresses of a host are tried."""
    stagger: float = 0.25
    """Seconds after which the next address is tried beside one that has not answered."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name.startswith("idle") or field.name in ("stagger", "sessions") else 1
            # Half a byte would pass here and fail in the midst of a delivery.
            whole = isinstance(field.default, int)
            kind = int if whole else int | float
            if isinstance(value, bool) or not isinstance(value, kind) or not value >= least:
                number = "whole number" if whole else "number"
                raise InvalidInput(f"{field.name} must be a {number} of at least {least}, got {shown(value)}.")
