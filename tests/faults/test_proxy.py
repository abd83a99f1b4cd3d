"""The proxy that other tests rely on does what it says."""

from __future__ import annotations

import time

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.servers.proxy import Proxy
from tests.servers.redis import Server

SOON = 0.2


@pytest.fixture
def client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, socket_timeout=SOON, socket_connect_timeout=SOON, retry=Retry(NoBackoff(), 0))


def test_passes(client: redis.Redis) -> None:
    """Without a fault every byte passes, also many at once."""
    with client:
        client.set("key", b"x" * 3_000_000)
        assert client.get("key") == b"x" * 3_000_000


def test_down(proxy: Proxy, client: redis.Redis) -> None:
    """Down cuts connections and refuses new ones; healed, it is found at the same port."""
    with client:
        client.ping()
        proxy.down()
        for _ in range(2):
            with pytest.raises(redis.ConnectionError):
                client.ping()
        proxy.heal()
        assert client.ping()


def test_timeout(proxy: Proxy, client: redis.Redis, server: Server) -> None:
    """In a timeout nothing arrives until it is healed; then what was held back arrives late."""
    with client, redis.Redis.from_url(server.url) as direct:
        client.ping()
        proxy.timeout()
        with pytest.raises(redis.TimeoutError):
            client.set("key", "value")
        assert direct.get("key") is None
        proxy.heal()
        assert client.ping()


def test_mute(proxy: Proxy, client: redis.Redis, server: Server) -> None:
    """Muted, a request is done though its answer does not arrive."""
    with client, redis.Redis.from_url(server.url) as direct:
        client.ping()
        proxy.mute()
        with pytest.raises(redis.TimeoutError):
            client.set("key", "value")
        assert direct.get("key") == b"value"


def test_reset(proxy: Proxy, client: redis.Redis) -> None:
    """A reset ends old connections, and new ones as soon as they are made."""
    with client:
        client.ping()
        proxy.reset()
        for _ in range(2):
            with pytest.raises(redis.ConnectionError, match="reset"):
                client.ping()
        proxy.heal()
        assert client.ping()


def test_latency(proxy: Proxy, client: redis.Redis) -> None:
    """Answers come later by the latency, and those under way at once do not add up."""
    with client:
        client.ping()
        proxy.latency(0.05)
        began = time.monotonic()
        with client.pipeline(transaction=False) as pipe:
            for _ in range(100):
                pipe.ping()
            pipe.execute()
        assert 0.05 <= time.monotonic() - began < SOON


def test_leads_elsewhere(proxy: Proxy, client: redis.Redis) -> None:
    """Led to another server, the next connection finds that one."""
    other = Server("redis")
    other.start()
    try:
        with client:
            client.set("key", "here")
            proxy.lead_to(other.path)
            assert client.get("key") is None
    finally:
        other.remove()
