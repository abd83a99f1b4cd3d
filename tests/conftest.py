"""Servers that tests share: started when the first test needs one, ended with the session."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import redis

from hookfuse.testing.redis import connect
from tests.servers import postgres
from tests.servers.cluster import Cluster, running_cluster
from tests.servers.redis import running

# Our servers speak no TLS. Trying it all the same, asyncpg leaves an error behind when a connect is cancelled.
os.environ.setdefault("PGSSLMODE", "disable")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    with running("redis") as url:
        yield url


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[str]:
    with running("valkey") as url:
        yield url


@pytest.fixture(scope="session")
def redis_cluster() -> Iterator[str]:
    with running_cluster("redis") as url:
        yield url


@pytest.fixture(scope="session")
def valkey_cluster() -> Iterator[str]:
    with running_cluster("valkey") as url:
        yield url


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """A Redis with nothing in it."""
    with redis.Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server


@pytest.fixture
def valkey_url(valkey_server: str) -> str:
    """A Valkey with nothing in it."""
    with redis.Redis.from_url(valkey_server) as client:
        client.flushall()
    return valkey_server


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    with postgres.running() as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """A Postgres database with nothing in it."""
    with postgres.empty_database(postgres_server) as url:
        yield url


@pytest.fixture
def cluster_url(redis_cluster: str) -> str:
    """A Redis Cluster with nothing in it."""
    with connect(redis_cluster) as client:
        client.flushall()
    return redis_cluster


@pytest.fixture
def valkey_cluster_url(valkey_cluster: str) -> str:
    """A Valkey cluster with nothing in it."""
    with connect(valkey_cluster) as client:
        client.flushall()
    return valkey_cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of the test's own, to do harm to."""
    made = Cluster()
    try:
        made.start()
        yield made
    finally:
        made.remove()
