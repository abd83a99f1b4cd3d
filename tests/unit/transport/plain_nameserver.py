"""A name server for thousands of questions at once, in a process of its own: the loop under test is busy enough."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
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
        sys.stdout.write(f"{sock.getsockname()[1]}\n")
        sys.stdout.flush()
        replies: deque[tuple[float, bytes, tuple[str, int]]] = deque()
        while True:
            until_next = max(0.0, replies[0][0] - monotonic()) if replies else None
            if select([sock], [], [], until_next)[0]:
                data, asker = sock.recvfrom(512)
                question = data[12:]
                found = question.endswith(_FOR_A)
                reply = data[:2] + pack("!5H", 0x8180, 1, found, 0, 0) + question + _RECORD * found
                if not question[1:].startswith(b"hang-"):
                    replies.append((monotonic() + latency, reply, asker))
            while replies and replies[0][0] <= monotonic():
                _, reply, asker = replies.popleft()
                sock.sendto(reply, asker)


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
