"""A client of the server that the histories run on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(redis_url) as client:
        yield client
