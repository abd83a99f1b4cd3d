"""Ports for servers that cannot be told to take any.

They are below those that the system gives to clients, so nobody takes one before its server has it, or while it is
stopped. The same is not drawn twice.
"""

from __future__ import annotations

import random
import socket

_RANGE = range(15_000, 32_000)
_given: set[int] = set()
# Other tests seed the common one, in several processes alike.
_random = random.SystemRandom()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody uses."""
    while True:
        port = _random.choice(_RANGE)
        if port not in _given and _is_free(host, port):
            _given.add(port)
            return port


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
