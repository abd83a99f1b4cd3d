"""Links to one server. A follower waits there in one blocking read over the streams of all shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis
import redis.asyncio

from hookfuse.errors import StoreError
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.connect import Server, hang_up, translated
from hookfuse.stores.redis.deadline import Deadline
from hookfuse.stores.redis.scripts import script
from hookfuse.stores.redis.tail import BLOCK_MS, Follower, Raw
from hookfuse.stores.redis.target import Settings
from hookfuse.stores.redis.verbs import Verbs


class ServerLink:
    """One server, for threads."""

    def __init__(self, settings: Settings, server: Server) -> None:
        self._includes = settings.includes
        self._client = server.client(settings.deadline)
        self._reader = server.client(settings.deadline, wait=BLOCK_MS / 1000)

    def run(self, call: Call) -> Any:
        known = script(call.script, self._includes)
        with translated(f"running {call.script}"):
            try:
                return self._client.evalsha(known.sha, len(call.keys), *call.keys, *call.args)
            except redis.exceptions.NoScriptError:
                # Sending the source runs it at once, so no flush of the scripts can come between.
                return self._client.eval(known.source, len(call.keys), *call.keys, *call.args)

    def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """All in one round trip."""
        with translated("running a batch"):
            pipe = self._client.pipeline(transaction=False)
            for call in calls:
                sha = script(call.script, self._includes).sha
                pipe.evalsha(sha, len(call.keys), *call.keys, *call.args)
            results: list[Any] = pipe.execute(raise_on_error=False)
        for place, call in enumerate(calls):
            try:
                with translated("running a batch"):
                    if isinstance(results[place], redis.exceptions.NoScriptError):
                        results[place] = self.run(call)
                    elif isinstance(results[place], Exception):
                        raise results[place]
            except StoreError as error:
                results[place] = error
        return results

    def ask(self, requests: Sequence[Raw]) -> list[Any]:
        return self._ask(self._client, requests)

    def part(self, key: str) -> str:
        return "Redis"

    def follower(self, verbs: Verbs) -> Follower:
        return Follower(verbs, self._includes)

    def listen(self, step: list[Raw]) -> list[Any]:
        return self._ask(self._reader, step)

    def hang_up(self) -> None:
        self._reader.connection_pool.disconnect()

    def close(self) -> None:
        for client in (self._client, self._reader):
            client.connection_pool.disconnect()

    def _ask(self, client: redis.Redis, requests: Sequence[Raw]) -> list[Any]:
        with translated("reading breakers"):
            pipe = client.pipeline(transaction=False)
            for request in requests:
                pipe.execute_command(*request)  # type: ignore[no-untyped-call]
            return pipe.execute()


class AsyncServerLink:
    """One server, for asyncio."""

    def __init__(self, settings: Settings, server: Server) -> None:
        self._includes = settings.includes
        self._deadline = settings.deadline
        self._client = server.async_client(settings.deadline)
        self._reader = server.async_client(settings.deadline, wait=BLOCK_MS / 1000)

    async def run(self, call: Call) -> Any:
        known = script(call.script, self._includes)
        arguments: list[Any] = [len(call.keys), *call.keys, *call.args]
        with translated(f"running {call.script}"):
            async with Deadline(self._deadline):
                try:
                    return await self._client.evalsha(known.sha, *arguments)
                except redis.exceptions.NoScriptError:
                    # Sending the source runs it at once, so no flush of the scripts can come between.
                    return await self._client.eval(known.source, *arguments)

    async def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """All in one round trip."""
        with translated("running a batch"):
            async with Deadline(self._deadline):
                pipe = self._client.pipeline(transaction=False)
                for call in calls:
                    sha = script(call.script, self._includes).sha
                    pipe.evalsha(sha, len(call.keys), *call.keys, *call.args)
                results = await pipe.execute(raise_on_error=False)
        for place, call in enumerate(calls):
            try:
                with translated("running a batch"):
                    if isinstance(results[place], redis.exceptions.NoScriptError):
                        results[place] = await self.run(call)
                    elif isinstance(results[place], Exception):
                        raise results[place]
            except StoreError as error:
                results[place] = error
        return results

    async def ask(self, requests: Sequence[Raw]) -> list[Any]:
        with translated("reading breakers"):
            async with Deadline(self._deadline):
                return await _ask(self._client, requests)

    def part(self, key: str) -> str:
        return "Redis"

    def follower(self, verbs: Verbs) -> Follower:
        return Follower(verbs, self._includes)

    async def listen(self, step: list[Raw]) -> list[Any]:
        with translated("following the streams"):
            return await _ask(self._reader, step)

    async def close(self) -> None:
        for client in (self._client, self._reader):
            await hang_up(client)


async def _ask(client: redis.asyncio.Redis, requests: Sequence[Raw]) -> list[Any]:
    pipe = client.pipeline(transaction=False)
    for request in requests:
        pipe.execute_command(*request)
    return await pipe.execute()
