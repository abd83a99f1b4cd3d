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

RECORDS = 4_000
_FOR_A = pack("!2H", 1, 1)
_RECORD = pack("!3HIH4B", 0xC00C, 1, 1, 60, 4, 192, 0, 2, 1)
_MANY = b"".join(_RECORD[:-4] + pack("!I", 0x0A00_0001 + number) for number in range(RECORDS))
_FOUND, _MISSING, _TRUNCATED = 0x8180, 0x8183, 0x8380


@contextmanager
def naming_apart(latency: float) -> Iterator[tuple[str, int]]:
    """Gives every name one address after a while, but for those that begin with a word.

    "hang-" gets no answer, "missing-" hears that there is no such name, and "many-" has 4,000 addresses, which it must
    ask for over TCP.
    """
    with subprocess.Popen([sys.executable, __file__, str(latency)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield "127.0.0.1", int(process.stdout.readline())
        finally:
            process.kill()


def _serve(latency: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, _listening(sock) as listener:
        # On a busy machine it is not always our turn.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        sock.setblocking(False)
        sys.stdout.write(f"{sock.getsockname()[1]}\n")
        sys.stdout.flush()
        replies: deque[tuple[float, bytes, tuple[str, int]]] = deque()
        streams: list[socket.socket] = []
        while True:
            wait = max(0.0, replies[0][0] - monotonic()) if replies else None
            ready, _, _ = select([sock, listener, *streams], [], [], wait)
            for data, asker in _arrived(sock):
                # Nothing else is done for these: a server that is slow to read would lose what comes meanwhile.
                if not data.startswith(b"hang-", 13):
                    replies.append((monotonic() + latency, _reply(data), asker))
            while replies and replies[0][0] <= monotonic():
                _, reply, asker = replies.popleft()
                sock.sendto(reply, asker)
            for stream in ready:
                if stream is listener:
                    streams.append(listener.accept()[0])
                elif stream is not sock:
                    streams.remove(stream)
                    _answer(stream)


def _listening(datagrams: socket.socket) -> socket.socket:
    """A socket for streams at a port that is free for datagrams too."""
    while True:
        listener = socket.create_server(("127.0.0.1", 0), backlog=1_000)
        try:
            datagrams.bind(listener.getsockname())
        except OSError:
            listener.close()
        else:
            return listener


def _arrived(sock: socket.socket) -> Iterator[tuple[bytes, tuple[str, int]]]:
    with suppress(BlockingIOError):
        while True:
            yield sock.recvfrom(512)


def _answer(stream: socket.socket) -> None:
    with stream, suppress(OSError):
        # So much that nobody has to wait for who reads it.
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)
        data = stream.recv(514)[2:]
        if data:
            reply = data[:2] + pack("!5H", _FOUND, 1, RECORDS, 0, 0) + data[12:] + _MANY
            stream.sendall(len(reply).to_bytes(2) + reply)


def _reply(data: bytes) -> bytes:
    found = data.endswith(_FOR_A)
    code = _FOUND
    if data.startswith(b"missing-", 13):
        code, found = _MISSING, False
    elif found and data.startswith(b"many-", 13):
        code, found = _TRUNCATED, False
    return data[:2] + pack("!5H", code, 1, found, 0, 0) + data[12:] + _RECORD * found


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
