"""A name server for thousands of questions at once, in a process of its own: the loop under test is busy enough."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from select import select
from struct import pack
from time import monotonic

_FOR_A = pack("!2H", 1, 1)
_RECORD = pack("!3HIH4B", 0xC00C, 1, 1, 60, 4, 192, 0, 2, 1)


@contextmanager
def naming_apart(latency: float) -> Iterator[tuple[str, int]]:
    """Gives every name one address after a while; those that begin with "hang-" get no answer."""
    with subprocess.Popen([sys.executable, __file__, str(latency)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.kill()


def _serve(latency: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        # On a busy machine it is not always our turn.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.setblocking(False)
        sys.stdout.write(f"{sock.getsockname()[1]}\n")
        sys.stdout.flush()
        replies: deque[tuple[float, bytes, tuple[str, int]]] = deque()
        while True:
            select([sock], [], [], max(0.0, replies[0][0] - monotonic()) if replies else None)
            for data, asker in _arrived(sock):
                # Nothing else is done for these: a server that is slow to read would lose what comes meanwhile.
                if not data.startswith(b"hang-", 13):
                    replies.append((monotonic() + latency, _reply(data), asker))
            while replies and replies[0][0] <= monotonic():
                _, reply, asker = replies.popleft()
                sock.sendto(reply, asker)


def _arrived(sock: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
    with suppress(BlockingIOError):
        while True:
            yield sock.recvfrom(512)


def _reply(data: bytes) -> bytes:
    found = data.endswith(_FOR_A)
    return data[:2] + pack("!5H", 0x8180, 1, found, 0, 0) + data[12:] + _RECORD * found


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
