"""A port on loopback on which nobody ever gets through: its queue is full."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def full_port(host: str = "127.0.0.1") -> Iterator[int]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with ExitStack() as stack:
        listening = stack.enter_context(socket.socket(family))
        listening.bind((host, 0))
        listening.listen(0)
        for _ in range(16):
            waiting = stack.enter_context(socket.socket(family))
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
            if not select.select([], [waiting], [], 0.1)[1]:
                break
        else:
            raise AssertionError("The queue never fills.")
        yield listening.getsockname()[1]
