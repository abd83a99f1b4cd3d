"""An egress proxy: the only way out of some networks.

The proxy is asked to reach the address that was vetted, never the name, so that it cannot resolve it otherwise.
"""

from __future__ import annotations

import asyncio
import re
import socket
from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from hookfuse.core.addresses import Address
from hookfuse.core.sending import Trouble
from hookfuse.errors import InvalidInput
from hookfuse.transport.troubles import Failure

# What was given instead is not shown: it may hold a password.
_FORM: Final = "A proxy is given as http://host:port or http://user:password@host:port."
_LONGEST_HEAD: Final = 8_192
_STATUS: Final = re.compile(rb"HTTP/1\.[01] ([0-9]{3})[ \r]")
_CANNOT_REACH: Final = frozenset((502, 503, 504))


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy that takes CONNECT."""

    host: str
    port: int
    username: str = ""
    password: str = field(default="", repr=False)

    @staticmethod
    def parse(url: str) -> Proxy:
        """Read `http://host:port` or `http://user:password@host:port`."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise InvalidInput(_FORM) from None
        if (
            parts.scheme != "http"
            or not host
            or not port
            or parts.path not in ("", "/")
            or parts.query
            or parts.fragment
        ):
            raise InvalidInput(_FORM)
        return Proxy(host, port, unquote(parts.username or ""), unquote(parts.password or ""))

    def connect_bytes(self, address: Address, port: int) -> bytes:
        target = f"[{address}]:{port}" if address.version == 6 else f"{address}:{port}"
        head = f"CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n"
        if self.username:
            secret = b64encode(f"{self.username}:{self.password}".encode()).decode()
            head += f"proxy-authorization: Basic {secret}\r\n"
        return f"{head}\r\n".encode()


async def tunnel(sock: socket.socket, proxy: Proxy, address: Address, port: int) -> Failure | None:
    """Turn a connection to the proxy into one to the address; returns what went wrong."""
    loop = asyncio.get_running_loop()
    head = b""
    try:
        await loop.sock_sendall(sock, proxy.connect_bytes(address, port))
        while b"\r\n\r\n" not in head and len(head) <= _LONGEST_HEAD:
            data = await loop.sock_recv(sock, _LONGEST_HEAD)
            if not data:
                break
            head += data
    except OSError:
        return Failure(Trouble.LOCAL, "The connection to the egress proxy broke.")
    return _judge(head)


def _judge(head: bytes) -> Failure | None:
    found = _STATUS.match(head)
    # Whoever is behind the proxy speaks only when spoken to, so nothing may follow.
    if not found or not head.endswith(b"\r\n\r\n"):
        return Failure(Trouble.LOCAL, "The egress proxy did not answer in HTTP.")
    status = int(found.group(1))
    if 200 <= status < 300:
        return None
    if status in _CANNOT_REACH:
        return Failure(Trouble.CONNECT, f"The egress proxy could not connect ({status}).")
    return Failure(Trouble.LOCAL, f"The egress proxy refused ({status}).")
