"""How much of anything the sender takes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from hookfuse.errors import InvalidInput, shown

RECEIVE_BYTES: Final = 65_536
"""The receive buffer that a socket asks for. The system doubles it for its own needs, but does not let it grow: a peer
that sends without end fills no more of our memory, and one read brings no more."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The defaults suit a worker with a few thousand file descriptors."""

    head_bytes: int = 65_536
    """Of a response's status line and headers, with those of interim responses before it."""
    head_lines: int = 100
    body_bytes: int = 65_536
    """What is beyond is not read: the connection is closed, and the status counts."""
    interim: int = 8
    """Responses with a status of 1xx before the real one."""
    idle_seconds: float = 4.0
    """How long a connection is kept. Below the five seconds after which most servers close theirs."""
    idle_per_host: int = 1_024
    idle_total: int = 2_048
    """Beyond it the connection goes that was idle for longest."""
    hosts: int = 20_000
    """Hosts whose vetted addresses are remembered."""
    addresses: int = 4
    """How many addresses of a host are tried."""
    stagger: float = 0.25
    """Seconds after which the next address is tried beside one that has not answered."""

    @property
    def taken_bytes(self) -> int:
        """The most that is taken off a socket for one response: all that we want, and what one read brings beyond."""
        return self.head_bytes + self.body_bytes + 2 * RECEIVE_BYTES

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name.startswith("idle") or field.name == "stagger" else 1
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= least:
                raise InvalidInput(f"{field.name} must be a number of at least {least}, got {shown(value)}.")
