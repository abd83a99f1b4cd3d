"""The Redis store for asyncio: one reader task per process, and what one tick of the loop asks goes out together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeVar

import redis
import redis.asyncio

from hookfuse.core.admission import Admission
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.errors import BreakerOpen, StoreError, StoreUnavailable
from hookfuse.stores.redis.commands import Call, Command
from hookfuse.stores.redis.connect import Settings, translated, unreadable
from hookfuse.stores.redis.deadline import Deadline
from hookfuse.stores.redis.scripts import script
from hookfuse.stores.redis.tail import (
    BLOCK_MS,
    FLUSH_SECONDS,
    RETRY_SECONDS,
    SHARDS_AT_ONCE,
    Follower,
    LostData,
    Raw,
    check_meta,
    next_pause,
)
from hookfuse.stores.redis.verbs import Verb, Verbs
from hookfuse.stores.redis.wire import Reply, read_reply
from hookfuse.telemetry import Observer

T = TypeVar("T")

_log = logging.getLogger("hookfuse")
_BATCHED = frozenset({"admit", "record", "release", "oks"})


class TaskSession:
    """Breakers in Redis, for asyncio. It belongs to the event loop that first uses it."""

    def __init__(self, settings: Settings, *, strict: bool) -> None:
        self._settings = settings
        self._verbs = Verbs(settings.keys, strict=strict, server_clock=settings.server_clock)
        self.timer = self._verbs.timer
        self._client = settings.async_client()
        self._reader = settings.async_client(wait=BLOCK_MS / 1000)
        self._checked = False
        self._following: asyncio.Task[None] | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._asked: list[tuple[Command, asyncio.Future[Reply]]] = []
        self._asking = False
        self._taking_off = asyncio.Lock()
        self._flight: asyncio.Future[None] | None = None
        self._flown: frozenset[str] = frozenset()
        self._pause = FLUSH_SECONDS
        self._running: set[asyncio.Task[None]] = set()

    def healthy(self, key: str) -> int | None:
        return None if self._verbs.strict else self._verbs.mirror.healthy(key)

    def refusal(self, key: str, policy: Policy) -> BreakerOpen | None:
        if self._verbs.strict:
            return None
        known = self._verbs.mirror.answer(key, policy)
        return known.refusal() if known is not None and not known.allowed else None

    def last_known(self, key: str, policy: Policy) -> Admission:
        return self._verbs.mirror.last_known(key, policy)

    def doubt(self, key: str) -> None:
        self._verbs.mirror.doubt(key)

    def trust(self, key: str) -> None:
        self._verbs.mirror.trust(key)

    def succeeded(self, key: str, policy: Policy, generation: int, started: float) -> None:
        self._buffer(key, policy, generation, (self.timer() - started) * 1000)

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        unsubscribe = self._verbs.announcer.subscribe(observer)
        self._follow_soon()
        return unsubscribe

    async def admit(self, key: str, policy: Policy) -> Admission:
        await self._start()
        return await self._drive(self._verbs.admit(key, policy))

    async def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        if self._verbs.buffers(admission, outcome):
            latency_ms = -1.0 if latency is None else latency * 1000
            self._buffer(admission.key, admission.policy, admission.generation, latency_ms)
            return None
        waiting = self._verbs.outbox.take(admission.key)
        if self._flight is not None and admission.key in self._flown:
            # Successes of this key are under way; what came later must not arrive before them.
            await self._landing(self._flight)
        return await self._drive(self._verbs.record(admission, outcome, latency, error, waiting))

    async def release(self, admission: Admission) -> None:
        await self._drive(self._verbs.release(admission))

    async def force(
        self, key: str, policy: Policy, order: Order, *, reason: str, until: float | None, actor: str
    ) -> Transition | None:
        await self._start()
        return await self._drive(self._verbs.force(key, policy, order, reason, until, actor))

    async def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> tuple[Transition, ...]:
        await self._start()
        await self.flush()
        return await self._drive(self._verbs.evaluate(key, policy, tally))

    async def inspect(self, key: str, policy: Policy) -> Snapshot:
        await self._start()
        await self.flush()
        return self._verbs.read_snapshot(key, policy, await self._run(self._verbs.commands.inspect(key)))

    async def unhealthy(self, policy_for: Callable[[str], Policy]) -> AsyncIterator[Snapshot]:
        await self._start()
        for shard in range(self._settings.keys.shards):
            with translated("listing breakers"):
                async with Deadline(self._settings.deadline):
                    keys: list[Any] = list(await self._client.hkeys(self._settings.keys.index(shard)))
            for key in keys:
                name = key.decode()
                found = await self.inspect(name, policy_for(name))
                if not found.healthy:
                    yield found

    async def flush(self) -> None:
        """Tell the store what is buffered, now."""
        outbox = self._verbs.outbox
        refused: StoreError | None = None
        async with self._taking_off:
            # A few shards at a time: the loop has other things to do, and what has not left yet can go with a failure.
            for keys in outbox.parts(SHARDS_AT_ONCE):
                while self._flight is not None:
                    await asyncio.wait([self._flight])
                waiting = [command for key in keys for command in outbox.take(key)]
                if waiting:
                    self._flown = frozenset(keys)
                    self._flight = asyncio.ensure_future(self._fly(waiting))
                    try:
                        await asyncio.shield(self._flight)
                    except StoreUnavailable:
                        # Told once it is back, they would count as successes of that time.
                        outbox.clear()
                        raise
                    except StoreError as error:
                        refused = error
        if refused is not None:
            raise refused

    async def _fly(self, waiting: Sequence[Command]) -> None:
        refused: StoreError | None = None
        try:
            calls = list(self._verbs.commands.batches(waiting))
            for call, result in zip(calls, await self._run_all(calls), strict=True):
                if isinstance(result, StoreError):
                    refused = result
                    continue
                for command, reply in zip(call.commands, result, strict=True):
                    self._verbs.learn(read_reply(command.key, reply))
        finally:
            self._flight = None
            self._flown = frozenset()
        if refused is not None:
            raise refused

    async def _landing(self, flight: asyncio.Future[None]) -> None:
        await asyncio.wait([flight])
        lost = flight.exception()
        if isinstance(lost, StoreUnavailable):
            # Whoever waited for this journey has waited long enough.
            raise lost

    async def catch_up(self, seconds: float = 2.0) -> None:
        """Wait until this process has heard of everything that happened so far."""
        await self._start()
        await self.flush()
        keys = self._settings.keys
        with translated("reading the streams"):
            async with Deadline(self._settings.deadline):
                pipe = self._client.pipeline(transaction=False)
                for shard in range(keys.shards):
                    pipe.xrevrange(keys.stream(shard), count=1)
                tops = await pipe.execute()
        deadline = time.monotonic() + seconds
        while not self._verbs.has_reached(tops):
            if time.monotonic() > deadline:
                raise StoreUnavailable("The streams of Redis could not be followed in time.")
            await asyncio.sleep(0.0005)

    async def close(self) -> None:
        """Flush, and end the reader."""
        if self._flushing is not None:
            self._flushing.cancel()
        try:
            if self._checked:
                await self.flush()
        finally:
            while self._following is not None and not self._following.done():
                # Again and again, because a cancel can get lost in the driver.
                self._following.cancel()
                await asyncio.wait([self._following], timeout=0.05)
            await asyncio.gather(*self._running, return_exceptions=True)
            for client in (self._client, self._reader):
                await client.connection_pool.disconnect()

    async def _start(self) -> None:
        if not self._checked:
            with translated("checking the number of shards"):
                async with Deadline(self._settings.deadline):
                    await self._talk(self._client, check_meta(self._verbs))
            self._checked = True
        self._follow_soon()

    def _follow_soon(self) -> None:
        if self._following is None:
            self._following = asyncio.get_running_loop().create_task(self._follow(), name="hookfuse-redis-reader")

    def _buffer(self, key: str, policy: Policy, generation: int, latency_ms: float) -> None:
        self._verbs.outbox.add(key, policy, generation, latency_ms)
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().call_later(self._pause, self._flush_soon)

    def _flush_soon(self) -> None:
        self._flushing = None
        self._spawn(self._flush_quietly())

    async def _flush_quietly(self) -> None:
        began = time.monotonic()
        try:
            await self.flush()
            self._pause = next_pause(time.monotonic() - began)
        except StoreError:
            # Maybe lost, never doubled: an outcome that timed out is not sent again.
            self._verbs.mirror.distrust()

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _drive(self, verb: Verb[T]) -> T:
        try:
            commands = next(verb)
            while True:
                commands = verb.send(await self._send(commands))
        except StopIteration as done:
            result: T = done.value
            return result

    async def _send(self, commands: Sequence[Command]) -> list[Reply]:
        """Put commands to those of the same tick; force and evaluate go alone."""
        if any(command.verb not in _BATCHED for command in commands):
            made = self._verbs.commands
            return [read_reply(each.key, await self._run(made.alone(each))) for each in commands]
        loop = asyncio.get_running_loop()
        if not self._asking:
            # Begins with the next turn of the loop, so whatever this one asks goes along.
            self._asking = True
            self._spawn(self._ask_all())
        futures: list[asyncio.Future[Reply]] = [loop.create_future() for _ in commands]
        self._asked += zip(commands, futures, strict=True)
        return await asyncio.gather(*futures) if len(futures) > 1 else [await futures[0]]

    async def _ask_all(self) -> None:
        """One journey at a time; what is asked meanwhile goes with the next."""
        try:
            while self._asked:
                asked, self._asked = self._asked, []
                lost = await self._ask(asked)
                if lost is not None:
                    # Those who waited for this journey have waited long enough.
                    asked, self._asked = self._asked, []
                    for _, future in asked:
                        _fail(future, lost)
        finally:
            self._asking = False

    async def _ask(self, asked: list[tuple[Command, asyncio.Future[Reply]]]) -> StoreError | None:
        """Run commands in one round trip, a call for each shard; returns the error if Redis was not reached."""
        waiting = {id(command): future for command, future in asked}
        try:
            calls = list(self._verbs.commands.batches([command for command, _ in asked]))
            for call, result in zip(calls, await self._run_all(calls), strict=True):
                for place, command in enumerate(call.commands):
                    future = waiting[id(command)]
                    if isinstance(result, StoreError):
                        _fail(future, result)
                        continue
                    reply = read_reply(command.key, result[place])
                    # Before anyone goes on, this process knows what its own commands changed.
                    self._verbs.learn(reply)
                    if not future.done():
                        future.set_result(reply)
        except StoreError as lost:
            for future in waiting.values():
                _fail(future, lost)
            return lost
        except Exception as error:
            # Whatever it was, nobody may wait for ever.
            for future in waiting.values():
                _fail(future, unreadable(error))
        return None

    async def _run_all(self, calls: Sequence[Call]) -> list[Any]:
        """What each call returned, or the error that it alone had."""
        known = script("batch", self._settings.includes)
        with translated("running a batch"):
            async with Deadline(self._settings.deadline):
                pipe = self._client.pipeline(transaction=False)
                for call in calls:
                    pipe.evalsha(known.sha, len(call.keys), *call.keys, *call.args)
                results = await pipe.execute(raise_on_error=False)
        for place, call in enumerate(calls):
            try:
                with translated("running a batch"):
                    if isinstance(results[place], redis.exceptions.NoScriptError):
                        results[place] = await self._run(call)
                    elif isinstance(results[place], Exception):
                        raise results[place]
            except StoreError as error:
                results[place] = error
        return results

    async def _run(self, call: Call) -> Any:
        known = script(call.script, self._settings.includes)
        arguments: list[Any] = [len(call.keys), *call.keys, *call.args]
        with translated(f"running {call.script}"):
            async with Deadline(self._settings.deadline):
                try:
                    return await self._client.evalsha(known.sha, *arguments)
                except redis.exceptions.NoScriptError:
                    # Sending the source runs it at once, so no flush of the scripts can come between.
                    return await self._client.eval(known.source, *arguments)

    async def _talk(self, client: redis.asyncio.Redis, talk: Any) -> None:
        """Carry raw commands and replies until the talk ends."""
        try:
            requests: list[Raw] = next(talk)
            while True:
                with translated("following the streams"):
                    pipe = client.pipeline(transaction=False)
                    for request in requests:
                        pipe.execute_command(*request)
                    replies = await pipe.execute()
                requests = talk.send(replies)
        except StopIteration:
            return

    async def _follow(self) -> None:
        follower = Follower(self._verbs, self._settings.includes)
        while True:
            try:
                await self._talk(self._reader, follower.follow())
            except LostData:
                follower.lose()
            except StoreError:
                self._verbs.mirror.distrust()
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                _log.exception("Following Redis failed; trying again.")
                self._verbs.mirror.distrust()
                await asyncio.sleep(RETRY_SECONDS)


def _fail(future: asyncio.Future[Reply], error: StoreError) -> None:
    if not future.done():
        future.set_exception(error)
