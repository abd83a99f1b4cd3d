"""The link to a cluster, for asyncio. A task for each primary listens to its bells."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import redis
import redis.asyncio

from hookfuse.stores.redis.cluster.bells import Ear, Ears, Heard
from hookfuse.stores.redis.cluster.following import ClusterFollower, Each, Wait
from hookfuse.stores.redis.cluster.journey import Errand, Leg, Travel, Trip, travel
from hookfuse.stores.redis.cluster.routes import Node, Routes
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.connect import hang_up, translated
from hookfuse.stores.redis.deadline import Deadline
from hookfuse.stores.redis.scripts import ringing
from hookfuse.stores.redis.tail import Raw
from hookfuse.stores.redis.target import Cluster, Settings
from hookfuse.stores.redis.verbs import Verbs

_WAIT = 0.5
"""What a reader may wait for on top of the deadline: it reads more than a caller does, and nobody waits for it."""


class AsyncTravels:
    """Makes journeys with clients of its own, one for each node; the trips of a leg go at the same time."""

    def __init__(self, cluster: Cluster, routes: Routes, deadline: float, wait: float | None = None) -> None:
        self._cluster = cluster
        self._routes = routes
        self._deadline = deadline
        self._wait = wait
        self._patience = deadline + (wait or 0.0)
        self._clients: dict[Node, redis.asyncio.Redis] = {}

    async def make(self, errands: Sequence[Errand]) -> None:
        journey = travel(self._routes, errands, self._patience)
        with translated("looking for the nodes of the cluster"):
            await self._carry(journey)

    async def client(self, node: Node) -> redis.asyncio.Redis:
        client = self._clients.get(node)
        if client is None:
            client = self._cluster.server(node).async_client(self._deadline, wait=self._wait)
            self._clients[node] = client
            for gone in set(self._clients) - self._routes.nodes:
                await hang_up(self._clients.pop(gone))
        return client

    async def close(self) -> None:
        for client in list(self._clients.values()):
            await hang_up(client)

    async def _carry(self, journey: Travel) -> None:
        try:
            leg: Leg = next(journey)
            while True:
                if leg.pause:
                    await asyncio.sleep(leg.pause)
                if len(leg.trips) == 1:
                    leg = journey.send([await self._visit(leg.trips[0])])
                else:
                    leg = journey.send(await asyncio.gather(*map(self._visit, leg.trips)))
        except StopIteration:
            return

    async def _visit(self, trip: Trip) -> Any:
        try:
            async with Deadline(self._patience):
                pipe = (await self.client(trip.node)).pipeline(transaction=False)
                for request in trip.requests:
                    pipe.execute_command(*request)
                return await pipe.execute(raise_on_error=False)
        except (redis.exceptions.RedisError, OSError) as error:
            return error


class AsyncClusterLink:
    """Every node of a cluster that serves shards."""

    def __init__(self, settings: Settings, cluster: Cluster) -> None:
        self._includes = ringing(settings.includes)
        self._routes = Routes(cluster.seeds, cluster.remap)
        self._calls = AsyncTravels(cluster, self._routes, settings.deadline)
        self._reads = AsyncTravels(cluster, self._routes, settings.deadline, _WAIT)
        self._ears = Ears(settings.keys, self._routes)
        self._listener = _Listener(self._ears, self._reads)

    async def run(self, call: Call) -> Any:
        errand = Errand.call(call, self._includes)
        await self._calls.make([errand])
        return errand.value(f"running {call.script}")

    async def run_all(self, calls: Sequence[Call]) -> list[Any]:
        errands = [Errand.call(call, self._includes) for call in calls]
        await self._calls.make(errands)
        return [errand.outcome("running a batch") for errand in errands]

    async def ask(self, requests: Sequence[Raw]) -> list[Any]:
        return await self._ask(self._calls, requests)

    def part(self, key: str) -> str:
        return self._ears.part(key)

    def follower(self, verbs: Verbs) -> ClusterFollower:
        return ClusterFollower(verbs, self._includes)

    async def listen(self, step: Wait | Each | list[Raw]) -> Any:
        if isinstance(step, Wait):
            await self._reads.make([])
            return await self._listener.wait(step.seconds)
        if isinstance(step, Each):
            errands = [Errand.raw(request) for request in step.requests]
            await self._reads.make(errands)
            return [errand.result for errand in errands]
        return await self._ask(self._reads, step)

    async def close(self) -> None:
        await self._listener.close()
        for travels in (self._calls, self._reads):
            await travels.close()

    async def _ask(self, travels: AsyncTravels, requests: Iterable[Raw]) -> list[Any]:
        errands = [Errand.raw(request) for request in requests]
        await travels.make(errands)
        return [errand.value("reading breakers") for errand in errands]


class _Listener:
    """The connections of the ears, and a task for each that reads it."""

    def __init__(self, ears: Ears, travels: AsyncTravels) -> None:
        self._ears = ears
        self._travels = travels
        self._tasks: dict[Ear, asyncio.Task[Exception]] = {}
        self._connections: dict[Ear, Any] = {}
        self._something = asyncio.Event()

    async def wait(self, seconds: float) -> Heard:
        for ear, task in list(self._tasks.items()):
            if task.done():
                await self._lose(ear, task.result())
        for ear in self._ears.surplus():
            await self._lose(ear)
        for ear in self._ears.missing():
            await self._open(ear)
        for ear in list(self._connections):
            await self._send(ear)
        try:
            async with asyncio.timeout(self._ears.due_in(seconds)):
                await self._something.wait()
        except TimeoutError:
            pass
        self._something.clear()
        return self._ears.collect()

    async def close(self) -> None:
        for ear in list(self._connections):
            await self._lose(ear)

    async def _open(self, ear: Ear) -> None:
        client = await self._travels.client(ear.node)
        self._ears.open[ear.node] = ear
        self._connections[ear] = client.connection_pool.make_connection()  # type: ignore[no-untyped-call]

    async def _send(self, ear: Ear) -> None:
        commands = ear.to_send()
        if not commands:
            return
        connection = self._connections[ear]
        try:
            if ear not in self._tasks:
                await connection.connect()
                # From here on an overdue sign of life is what ends it.
                connection.socket_timeout = None
            await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
        except (redis.exceptions.RedisError, OSError) as error:
            await self._lose(ear, error)
        else:
            if ear not in self._tasks:
                self._tasks[ear] = asyncio.create_task(self._read(ear), name=f"hookfuse-redis-bells-{ear.node}")

    async def _read(self, ear: Ear) -> Exception:
        """Returns why the ear hears no more."""
        connection = self._connections[ear]
        try:
            while True:
                ear.hear(await connection.read_response())
                self._something.set()
        except (redis.exceptions.RedisError, OSError) as error:
            self._something.set()
            return error

    async def _lose(self, ear: Ear, error: Exception | None = None) -> None:
        self._ears.lose(ear, error)
        connection = self._connections.pop(ear)
        task = self._tasks.pop(ear, None)
        while task is not None and not task.done():
            # Again and again, because a cancel can get lost in the driver.
            task.cancel()
            await asyncio.wait([task], timeout=0.05)
        await connection.disconnect(nowait=True)
