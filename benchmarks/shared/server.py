"""A Redis of our own for one run, listening on TCP as users have it, and what it says about itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from tests.servers.ports import free_port
from tests.servers.redis import Server


@contextmanager
def running() -> Iterator[str]:
    """A new, empty server; yields its URL."""
    port = free_port()
    server = Server("redis", "--port", str(port), "--bind", "127.0.0.1")
    server.start()
    try:
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        server.remove()


def said(client: redis.Redis, section: str) -> dict[str, Any]:
    """A section of INFO."""
    answer: Any = client.info(section)
    return dict(answer)
