"""What a store is told about its Redis: a URL, or a client whose settings are taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.connection import parse_url

from hookfuse.errors import InvalidInput, shown
from hookfuse.stores.redis.cluster.routes import Node, Remap
from hookfuse.stores.redis.connect import Server
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.scripts import Includes

SCHEMES = ("redis", "rediss", "unix", "redis+cluster", "rediss+cluster")
ANY_SCHEME = "redis://, rediss://, unix://, redis+cluster:// or rediss+cluster://"
_CLUSTER = "+cluster"
_OURS = frozenset(
    {"retry", "retry_on_error", "retry_on_timeout", "socket_timeout", "socket_connect_timeout", "decode_responses"}
)
# What a cluster's client knows of dialling a node; the rest of its settings is about the cluster.
_OF_A_NODE = frozenset(
    {"client_name", "credential_provider", "password", "socket_keepalive", "socket_keepalive_options", "username"}
)


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster: some of its nodes, and how each of them is dialled."""

    seeds: tuple[Node, ...]
    given: Mapping[str, Any]
    connection: str
    remap: Remap | None = None

    def server(self, node: Node) -> Server:
        # Bells arrive as plain replies in the older protocol, with any version of the driver.
        return Server(None, {**self.given, "host": node.host, "port": node.port, "protocol": 2}, self.connection)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a session needs to begin."""

    keys: Keys
    deadline: float
    target: Server | Cluster
    includes: Includes = ()
    server_clock: Callable[[], float] | None = None


def read_target(target: object) -> Server | Cluster:
    if isinstance(target, str):
        scheme = urlsplit(target).scheme
        if scheme not in SCHEMES:
            # Without the URL itself: it may hold a password.
            raise InvalidInput(f"A Redis URL begins with {ANY_SCHEME}, and this one does not.")
        return _read_cluster_url(target) if scheme.endswith(_CLUSTER) else Server(target)
    if isinstance(target, redis.Redis | redis.asyncio.Redis):
        pool = target.connection_pool
        kept = {name: value for name, value in pool.connection_kwargs.items() if name not in _OURS}
        return Server(None, kept, pool.connection_class.__name__)
    if isinstance(target, redis.RedisCluster | redis.asyncio.RedisCluster):
        return _read_cluster_client(target)
    raise InvalidInput(
        f"RedisStore takes a URL such as redis://localhost:6379/0 or a redis client, got {shown(target)}."
    )


def each_host(url: str) -> list[str]:
    """A cluster's URL, which may name several nodes, as one URL of a server for each of them."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    scheme = parts.scheme.removesuffix(_CLUSTER)
    return [parts._replace(scheme=scheme, netloc=f"{user}{at}{host}").geturl() for host in hosts.split(",")]


def _read_cluster_url(url: str) -> Cluster:
    try:
        nodes = [dict(parse_url(each)) for each in each_host(url)]  # type: ignore[no-untyped-call]
    except ValueError:
        raise InvalidInput(
            "The URL of the cluster cannot be read; it looks like redis+cluster://user:password@host:6379,other:6379, "
            "with special characters of the password percent-encoded."
        ) from None
    seeds = tuple(Node(each.pop("host", "localhost"), each.pop("port", 6379)) for each in nodes)
    given = nodes[0]
    if given.pop("db", 0) != 0:
        raise InvalidInput("A Redis Cluster has only database 0; leave it out of the URL.")
    kind = given.pop("connection_class", redis.Connection)
    kept = {name: value for name, value in given.items() if name not in _OURS}
    return Cluster(seeds, kept, kind.__name__)


def _read_cluster_client(client: redis.RedisCluster | redis.asyncio.RedisCluster) -> Cluster:
    nodes: Any = client.nodes_manager
    seeds = {Node(node.host, int(node.port)) for node in (*nodes.startup_nodes.values(), *nodes.nodes_cache.values())}
    given = nodes.connection_kwargs
    kind = given.get("connection_class", redis.SSLConnection if given.get("ssl") else redis.Connection)
    kept = {
        name: value
        for name, value in given.items()
        if value is not None and (name in _OF_A_NODE or name.startswith("ssl_"))
    }
    return Cluster(tuple(sorted(seeds)), kept, kind.__name__, nodes.address_remap)
