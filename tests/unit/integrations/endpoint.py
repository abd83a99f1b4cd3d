"""A real HTTP server on loopback that answers as it is told."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self

from tests.servers.ports import free_port

_PATIENCE = 10.0  # seconds before a wait that should be short gives up


class Endpoint:
    """Answers 200 until told otherwise; `/moved` redirects to `/`. `paths` lists every request that arrived."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.arrived = threading.Event()
        self.before_headers: Callable[[], None] | None = None
        self._status = 200
        self._headers: Mapping[str, str] = {}
        self._reset = False
        self._may_begin = threading.Event()
        self._may_end = threading.Event()
        self.release()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def answer(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        self._status, self._headers = status, headers or {}

    def reset(self) -> None:
        """Cut the connection instead of answering."""
        self._reset = True

    def hang(self) -> None:
        """Answer nothing before `release`."""
        self._may_begin.clear()

    def hold_body(self) -> None:
        """Send the headers, but no body before `release`."""
        self._may_end.clear()

    def release(self) -> None:
        self._may_begin.set()
        self._may_end.set()

    def wait_for_request(self) -> None:
        assert self.arrived.wait(_PATIENCE), "no request arrived"

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        self.paths.append(handler.path)
        self.arrived.set()
        self._may_begin.wait(_PATIENCE)
        if self._reset:
            # A linger of zero seconds makes close() send RST.
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.close_connection = True
            return
        if self.before_headers is not None:
            self.before_headers()
        moved = handler.path == "/moved"
        handler.send_response_only(302 if moved else self._status)
        for name, value in ({"Location": "/"} if moved else self._headers).items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", "4")
        handler.end_headers()
        self._may_end.wait(_PATIENCE)
        handler.wfile.write(b"body")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    def __init__(self, endpoint: Endpoint) -> None:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_GET(self) -> None:
                endpoint.handle(self)

            do_POST = do_GET

        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is part of the tests."""


def unused_url() -> str:
    """An address that refuses connections."""
    return f"http://127.0.0.1:{free_port()}"
