"""The link to a cluster, for threads. One thread listens to the bells of all primaries."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import redis

from hookfuse.stores.redis.cluster.bells import Ear, Ears, Heard
from hookfuse.stores.redis.cluster.following import ClusterFollower, Each, Wait
from hookfuse.stores.redis.cluster.journey import Errand, Leg, Travel, Trip, travel
from hookfuse.stores.redis.cluster.routes import Node, Routes
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.connect import translated
from hookfuse.stores.redis.scripts import ringing
from hookfuse.stores.redis.tail import Raw
from hookfuse.stores.redis.target import Cluster, Settings
from hookfuse.stores.redis.verbs import Verbs

_WAIT = 0.5
"""What a reader may wait for on top of the deadline: it reads more than a caller does, and nobody waits for it."""


class Travels:
    """Makes journeys with clients of its own, one for each node."""

    def __init__(self, cluster: Cluster, routes: Routes, deadline: float, wait: float = 0.0) -> None:
        self._cluster = cluster
        self._routes = routes
        self._deadline = deadline
        self._wait = wait
        self._clients: dict[Node, redis.Redis] = {}

    def make(self, errands: Sequence[Errand]) -> None:
        journey = travel(self._routes, errands, self._deadline + self._wait)
        with translated("looking for the nodes of the cluster"):
            self._carry(journey)

    def client(self, node: Node) -> redis.Redis:
        client = self._clients.get(node)
        if client is None:
            for gone in set(self._clients) - self._routes.nodes:
                self._clients.pop(gone).connection_pool.disconnect()
            made = self._cluster.server(node).client(self._deadline, wait=self._wait)
            client = self._clients.setdefault(node, made)
        return client

    def close(self) -> None:
        for client in list(self._clients.values()):
            client.connection_pool.disconnect()

    def _carry(self, journey: Travel) -> None:
        try:
            leg: Leg = next(journey)
            while True:
                if leg.pause:
                    time.sleep(leg.pause)
                leg = journey.send([self._visit(trip) for trip in leg.trips])
        except StopIteration:
            return

    def _visit(self, trip: Trip) -> Any:
        try:
            pipe = self.client(trip.node).pipeline(transaction=False)
            for request in trip.requests:
                pipe.execute_command(*request)  # type: ignore[no-untyped-call]
            return pipe.execute(raise_on_error=False)
        except (redis.exceptions.RedisError, OSError) as error:
            return error


class ClusterLink:
    """Every node of a cluster that serves shards."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._includes = ringing(settings.includes)
        self._routes = Routes(cluster.seeds, cluster.remap)
        self._calls = Travels(cluster, self._routes, settings.deadline)
        self._reads = Travels(cluster, self._routes, settings.deadline, _WAIT)
        self._ears = Ears(settings.keys, self._routes)
        self._listener = _Listener(self._ears, self._reads)

    def run(self, call: Call) -> Any:
        errand = Errand.call(call, self._includes)
        self._calls.make([errand])
        return errand.value(f"running {call.script}")

    def run_all(self, calls: Sequence[Call]) -> list[Any]:
        errands = [Errand.call(call, self._includes) for call in calls]
        self._calls.make(errands)
        return [errand.outcome("running a batch") for errand in errands]

    def ask(self, requests: Sequence[Raw]) -> list[Any]:
        return self._ask(self._calls, requests)

    def part(self, key: str) -> str:
        return self._ears.part(key)

    def follower(self, verbs: Verbs) -> ClusterFollower:
        return ClusterFollower(verbs, self._includes)

    def listen(self, step: Wait | Each | list[Raw]) -> Any:
        if isinstance(step, Wait):
            self._reads.make([])
            return self._listener.wait(step.seconds)
        if isinstance(step, Each):
            errands = [Errand.raw(request) for request in step.requests]
            self._reads.make(errands)
            return [errand.result for errand in errands]
        return self._ask(self._reads, step)

    def hang_up(self) -> None:
        self._listener.wake()

    def close(self) -> None:
        self._listener.close()
        for travels in (self._calls, self._reads):
            travels.close()

    def _ask(self, travels: Travels, requests: Iterable[Raw]) -> list[Any]:
        errands = [Errand.raw(request) for request in requests]
        travels.make(errands)
        return [errand.value("reading breakers") for errand in errands]


class _Listener:
    """The connections of the ears; used by one thread, and woken by others."""

    def __init__(self, ears: Ears, travels: Travels) -> None:
        self._ears = ears
        self._travels = travels
        self._connections: dict[Ear, Any] = {}

    def wait(self, seconds: float) -> Heard:
        for ear in self._ears.surplus():
            self._lose(ear)
        for ear in self._ears.missing():
            self._ears.open[ear.node] = ear
            self._connections[ear] = self._travels.client(ear.node).connection_pool.make_connection()
        for ear in list(self._connections):
            self._send(ear)
        self._poll(self._ears.due_in(seconds))
        return self._ears.collect()

    def wake(self) -> None:
        """End a `wait` of another thread: its poll returns when a connection is shut down under it."""
        for connection in list(self._connections.values()):
            with suppress(OSError, AttributeError):
                connection._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for ear in list(self._connections):
            self._lose(ear)

    def _send(self, ear: Ear) -> None:
        commands = ear.to_send()
        if not commands:
            return
        connection = self._connections[ear]
        try:
            connection.connect()
            connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        except (redis.exceptions.RedisError, OSError) as error:
            self._lose(ear, error)

    def _poll(self, seconds: float) -> None:
        poller = select.poll()
        for connection in self._connections.values():
            poller.register(connection._sock, select.POLLIN)
        poller.poll(seconds * 1000)
        for ear, connection in list(self._connections.items()):
            try:
                while connection.can_read():
                    ear.hear(connection.read_response())
            except (redis.exceptions.RedisError, OSError) as error:
                self._lose(ear, error)

    def _lose(self, ear: Ear, error: Exception | None = None) -> None:
        self._ears.lose(ear, error)
        self._connections.pop(ear).disconnect()
