"""A real cluster of three primaries for the tests, on the loopback interface, or the one that the environment names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis
from redis.crc import key_slot

from hookfuse.stores.redis.keys import Keys
from tests.servers.ports import free_port
from tests.servers.redis import Server
from tests.servers.waiting import wait_until

KEYS = Keys("hookfuse", 64)
"""Those of a store with the default settings."""
_NAMED = {"redis": "HOOKFUSE_TEST_CLUSTER_URL", "valkey": "HOOKFUSE_TEST_VALKEY_CLUSTER_URL"}
_AGREES_WITHIN = 20.0
_SLOTS = 16384
# A node that is gone is known to be gone soon, and the others go on without it.
_OPTIONS = (
    "--bind",
    "127.0.0.1",
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "1000",
    "--cluster-require-full-coverage",
    "no",
    "--repl-diskless-sync-delay",
    "0",
)


class Node(Server):
    """One server of a cluster; its data is gone after a stop, its slots and its friends are not."""

    def __init__(self, kind: str) -> None:
        self.port, self.bus = free_port(), free_port()
        super().__init__(kind, "--port", str(self.port), "--cluster-port", str(self.bus), *_OPTIONS)

    def command(self, *words: object) -> Any:
        with redis.Redis.from_url(self.url, protocol=2) as client:
            return client.execute_command(*words)

    @property
    def id(self) -> bytes:
        name: bytes = self.command("CLUSTER", "MYID")
        return name

    def has_all_of(self, primary: Node) -> bool:
        """Whether this replica has everything that its primary has written."""
        mine, its = (node.command("INFO", "replication") for node in (self, primary))
        return bool(mine["slave_repl_offset"] >= its["master_repl_offset"])

    def agrees(self, nodes: int) -> bool:
        """Whether this node sees a cluster of so many nodes, all of them well and with all slots."""
        links: bytes = self.command("CLUSTER", "NODES")
        whole = b"cluster_state:ok" in self.command("CLUSTER", "INFO")
        return whole and links.count(b" connected") == nodes and b"fail" not in links


class Cluster:
    """Three primaries, each with a third of the slots."""

    def __init__(self, kind: str = "redis") -> None:
        self._kind = kind
        self.nodes = [Node(kind) for _ in range(3)]
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        self.url = f"redis+cluster://{hosts}"

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        share = -(-_SLOTS // len(self.nodes))
        for place, node in enumerate(self.nodes):
            last = min((place + 1) * share, _SLOTS) - 1
            node.command("CLUSTER", "ADDSLOTSRANGE", place * share, last)
            # Else two nodes may begin with the same epoch, and quarrel over a slot that is moved.
            node.command("CLUSTER", "SET-CONFIG-EPOCH", place + 1)
        for other in self.nodes[1:]:
            self.nodes[0].command("CLUSTER", "MEET", "127.0.0.1", other.port, other.bus)
        self.wait_until_whole()

    def add_replica(self, primary: Node) -> Node:
        """A fourth node that has what this one has, and takes over when it dies."""
        replica = Node(self._kind)
        self.nodes.append(replica)
        replica.start()
        replica.command("CLUSTER", "MEET", "127.0.0.1", primary.port, primary.bus)
        self.wait_until_whole()
        replica.command("CLUSTER", "REPLICATE", primary.id)
        wait_until(lambda: replica.command("INFO", "replication").get("master_link_status") == "up", _AGREES_WITHIN)
        return replica

    def wait_until_whole(self) -> None:
        wait_until(lambda: all(node.agrees(len(self.nodes)) for node in self.nodes), _AGREES_WITHIN)

    def owner(self, key: str) -> Node:
        """The node that serves a key's slot, by its own account."""
        slot = key_slot(key.encode())
        for node in self.nodes:
            shards = node.command("CLUSTER", "SLOTS")
            if any(first <= slot <= last and primary[1] == node.port for first, last, primary, *_ in shards):
                return node
        raise AssertionError(f"nobody serves slot {slot}")

    def breaker_on(self, node: Node, *, elsewhere: bool = False) -> str:
        """The key of a breaker whose shard is on this node, or on any other one."""
        for number in range(1_000):
            key = f"ep_{number}"
            if (self.owner(KEYS.stream(KEYS.shard(key))) is node) is not elsewhere:
                return key
        raise AssertionError("no such key")

    def move(self, key: str, to: Node) -> None:
        """Move the slot of a key to another node, with everything in it, as a resharding does."""
        slot, source = key_slot(key.encode()), self.owner(key)
        to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, 100):
            source.command("MIGRATE", "127.0.0.1", to.port, "", 0, 5_000, "KEYS", *keys)
        for node in (to, source, *self.nodes):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", to.id)

    def remove(self) -> None:
        for node in self.nodes:
            node.remove()


@contextmanager
def running_cluster(kind: str = "redis") -> Iterator[str]:
    """A cluster; yields its URL."""
    given = os.environ.get(_NAMED[kind])
    if given:
        yield given
        return
    cluster = Cluster(kind)
    try:
        cluster.start()
        yield cluster.url
    finally:
        cluster.remove()
