"""A server of the test's own, and a way to it that can be broken."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers.proxy import Proxy
from tests.servers.redis import Server


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server("redis")
    made.start()
    yield made
    made.remove()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Leads to `server`."""
    with Proxy(server.path) as made:
        yield made


@pytest.fixture
def url(proxy: Proxy) -> str:
    """The server by way of the proxy."""
    return f"redis://127.0.0.1:{proxy.port}/0"
