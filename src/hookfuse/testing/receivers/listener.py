"""A port of its own, open or shut. Shut it stays bound, so nobody else gets it, and refuses connections."""

from __future__ import annotations

import asyncio
import socket
import ssl

from hookfuse.testing.receivers.connection import Connection, Directory, Open
from hookfuse.testing.receivers.recording import RecordingConnection

_BACKLOG = 4096
_ACCEPTED_AT_ONCE = 128
_WITHOUT_DESCRIPTORS = 0.1  # seconds until the next look


class Listener:
    """Takes connections by hand, because a port that can be shut at once is more than asyncio's servers offer."""

    def __init__(self, directory: Directory, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._directory = directory
        self._tls = tls
        self._socket = _bound(host, port)
        self._address: tuple[str, int] = self._socket.getsockname()[:2]
        self._open = False
        self._connections = Open()
        self._greetings: dict[asyncio.Task[None], socket.socket] = {}

    @property
    def url(self) -> str:
        host, port = self._address
        return f"{'https' if self._tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def port(self) -> int:
        return self._address[1]

    @property
    def connections(self) -> int:
        return len(self._connections)

    def open(self) -> None:
        if not self._open:
            self._open = True
            self._socket.listen(_BACKLOG)
            self._loop.add_reader(self._socket.fileno(), self._accept)

    def shut(self) -> None:
        """Refuse from now on, and drop whoever is connected, as a dead process does."""
        if self._open:
            self._unplug()
            self._socket = _bound(*self._address)

    async def close(self) -> None:
        self._unplug()
        greetings = dict(self._greetings)
        for greeting in greetings:
            greeting.cancel()
        await asyncio.gather(*greetings, return_exceptions=True)
        # A greeting that was cancelled before it began could not do this itself.
        for client in greetings.values():
            client.close()
        await self._connections.gone()

    def _unplug(self) -> None:
        if self._open:
            self._open = False
            self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._connections.reset()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, _address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                # No file descriptors: the connection waits in the backlog until there are some.
                self._loop.remove_reader(self._socket.fileno())
                self._loop.call_later(_WITHOUT_DESCRIPTORS, self._look_again)
                return
            client.setblocking(False)
            greeting = self._loop.create_task(self._greet(client))
            self._greetings[greeting] = client
            greeting.add_done_callback(self._greetings.pop)

    def _look_again(self) -> None:
        if self._open:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    async def _greet(self, client: socket.socket) -> None:
        connection = self._connection()
        try:
            await self._loop.connect_accepted_socket(lambda: connection, client, ssl=self._tls)
        except OSError:
            # A client that refused our certificate, or left at once; both are what tests are about.
            client.close()
        except asyncio.CancelledError:
            # A loop may have announced the connection by now, and does not take that back.
            connection.connection_lost(None)
            raise
        if not self._open:
            connection.reset()

    def _connection(self) -> Connection:
        kind = Connection if self._directory.ledger is None else RecordingConnection
        return kind(self._directory, self._connections)


def _bound(host: str, port: int) -> socket.socket:
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setblocking(False)
    made.bind((host, port))
    return made
