"""Questions on their way to Redis and back, for asyncio: what one turn of the loop asks goes out together.

Two journeys may be under way, so that Redis works while this process reads what the other one brought. Outcomes of a
key that must arrive in their order are asked together, and travel together.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from hookfuse.errors import StoreError
from hookfuse.stores.redis.commands import Command
from hookfuse.stores.redis.connect import unreadable
from hookfuse.stores.redis.link import AsyncLink
from hookfuse.stores.redis.verbs import Verbs
from hookfuse.stores.redis.wire import Reply, read_reply

_MOST_UNDER_WAY = 2
_MOST_TOGETHER = 64

_Question: TypeAlias = tuple[Sequence[Command], asyncio.Future[list[Reply]]]


class Journeys:
    """The round trips of one session."""

    def __init__(self, verbs: Verbs, link: AsyncLink) -> None:
        self._verbs = verbs
        self._link = link
        self._asked: list[_Question] = []
        self._leaving = False
        self._under_way = 0
        self._running: set[asyncio.Task[None]] = set()

    def put(self, commands: Sequence[Command]) -> asyncio.Future[list[Reply]]:
        """The replies to come."""
        future: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()
        self._asked.append((commands, future))
        self._leave_soon()
        return future

    async def end(self) -> None:
        """Wait until nobody is under way."""
        await asyncio.gather(*self._running, return_exceptions=True)

    def _leave_soon(self) -> None:
        """Begin a journey with the next turn of the loop, so that whatever this one asks goes along."""
        if not self._leaving and self._under_way < _MOST_UNDER_WAY:
            self._leaving = True
            task = asyncio.get_running_loop().create_task(self._travel())
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _travel(self) -> None:
        """There and back; what is asked meanwhile goes along the next time."""
        self._leaving = False
        self._under_way += 1
        try:
            while self._asked:
                asked, self._asked = self._asked[:_MOST_TOGETHER], self._asked[_MOST_TOGETHER:]
                if self._asked:
                    self._leave_soon()
                lost = await self._ask(asked)
                if lost is not None:
                    # Those who waited for this journey have waited long enough.
                    asked, self._asked = self._asked, []
                    for _, future in asked:
                        _fail(future, lost)
        finally:
            self._under_way -= 1

    async def _ask(self, asked: Sequence[_Question]) -> StoreError | None:
        """Run commands in one round trip, a call for each shard; returns the error if Redis was not reached."""
        try:
            calls = list(self._verbs.commands.batches([command for commands, _ in asked for command in commands]))
            replies: dict[int, Reply] = {}
            for call, result in zip(calls, await self._link.run_all(calls), strict=True):
                if isinstance(result, StoreError):
                    refused = {id(command) for command in call.commands}
                    for commands, future in asked:
                        if not refused.isdisjoint(map(id, commands)):
                            _fail(future, result)
                    continue
                for place, command in enumerate(call.commands):
                    replies[id(command)] = reply = read_reply(command.key, result[place])
                    # Before anyone goes on, this process knows what its own commands changed.
                    self._verbs.learn(reply)
            for commands, future in asked:
                if not future.done():
                    future.set_result([replies[id(command)] for command in commands])
        except StoreError as lost:
            for _, future in asked:
                _fail(future, lost)
            return lost
        except Exception as error:
            # Whatever it was, nobody may wait for ever.
            for _, future in asked:
                _fail(future, unreadable(error))
        return None


def _fail(future: asyncio.Future[list[Reply]], error: StoreError) -> None:
    if not future.done():
        future.set_exception(error)
