"""The Redis store for asyncio: one reader task per process, and what one tick of the loop asks goes out together."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

from hookfuse.core.admission import Admission
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.errors import BreakerOpen, StoreError, StoreUnavailable
from hookfuse.stores.redis.commands import Command
from hookfuse.stores.redis.flights import FLUSH_SECONDS, AsyncFlights, next_pause
from hookfuse.stores.redis.journeys import Journeys
from hookfuse.stores.redis.link import open_async_link
from hookfuse.stores.redis.sampling import TaskSampling
from hookfuse.stores.redis.tail import RETRY_SECONDS, LostData, check_meta
from hookfuse.stores.redis.target import Settings
from hookfuse.stores.redis.verbs import Verb, Verbs
from hookfuse.stores.redis.wire import Reply, read_reply
from hookfuse.telemetry import Observer

T = TypeVar("T")

_log = logging.getLogger("hookfuse")
_BATCHED = frozenset({"admit", "record", "release", "oks"})


class TaskSession(TaskSampling):
    """Breakers in Redis, for asyncio. It belongs to the event loop that first uses it."""

    def __init__(self, settings: Settings, *, strict: bool) -> None:
        self._settings = settings
        self._verbs = Verbs(settings.keys, strict=strict, server_clock=settings.server_clock)
        self.timer = self._verbs.timer
        self._link = open_async_link(settings)
        self._checked = False
        self._checking: asyncio.Future[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._flushing: asyncio.TimerHandle | None = None
        self._journeys = Journeys(self._verbs, self._link)
        self._flights = AsyncFlights(self._verbs, self._link)
        self._pause = FLUSH_SECONDS
        self._running: set[asyncio.Task[None]] = set()

    @property
    def healthy(self) -> Callable[[str], int | None]:
        # The mirror's own method: callers bind it once, and save a frame per call.
        return _unsure if self._verbs.strict else self._verbs.mirror.healthy

    def refusal(self, key: str, policy: Policy) -> BreakerOpen | None:
        if self._verbs.strict:
            return None
        known = self._verbs.mirror.answer(key, policy)
        return known.refusal() if known is not None and not known.allowed else None

    def part(self, key: str) -> str:
        return self._link.part(key)

    def last_known(self, key: str, policy: Policy) -> Admission:
        return self._verbs.mirror.last_known(key, policy)

    def doubt(self, key: str) -> None:
        self._verbs.mirror.doubt(key)

    def trust(self, key: str) -> None:
        self._verbs.mirror.trust(key)

    def succeeded(self, key: str, policy: Policy, generation: int, started: float) -> None:
        outbox = self._verbs.outbox
        run = outbox.open.get(key)
        if run is not None and run.policy is policy and run.generation == generation:
            # What `add` would do, less a frame; where a run is open, a flush is already to come.
            run.times += 1
            run.latency_ms += (self.timer() - started) * 1000
            return
        self._buffer(key, policy, generation, (self.timer() - started) * 1000)

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        unsubscribe = self._verbs.announcer.subscribe(observer)
        self._follow_soon()
        return unsubscribe

    async def admit(self, key: str, policy: Policy) -> Admission:
        if self._following is None or not self._checked:
            await self._start()
        return await self._drive(self._verbs.admit(key, policy))

    async def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        if self._verbs.buffers(admission, outcome):
            latency_ms = -1.0 if latency is None else latency * 1000
            self._buffer(admission.key, admission.policy, admission.generation, latency_ms)
            return None
        waiting = await self._flights.take(admission.key)
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
        return self._verbs.read_snapshot(key, policy, await self._link.run(self._verbs.commands.inspect(key)))

    async def unhealthy(self, policy_for: Callable[[str], Policy]) -> AsyncIterator[Snapshot]:
        await self._start()
        await self.flush()
        for call, names in self._verbs.pages(await self._link.ask(self._verbs.ask_names())):
            for found in self._verbs.read_page(names, await self._link.run(call), policy_for):
                yield found

    async def flush(self) -> None:
        """Tell the store what is buffered, now."""
        await self._flights.flush()

    async def catch_up(self, seconds: float = 2.0) -> None:
        """Wait until this process has heard of everything that happened so far."""
        await self._start()
        await self.flush()
        tops = await self._link.ask(self._verbs.ask_tops())
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
            checking = [self._checking] if self._checking is not None else []
            await asyncio.gather(*self._running, *checking, return_exceptions=True)
            await self._journeys.end()
            await self._link.close()

    async def _start(self) -> None:
        if not self._checked:
            if self._checking is None:
                self._checking = asyncio.ensure_future(self._check())
            await asyncio.shield(self._checking)
        self._follow_soon()

    async def _check(self) -> None:
        """Once for all who begin together."""
        try:
            await self._talk(self._link.ask, check_meta(self._verbs))
            self._checked = True
        finally:
            self._checking = None

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
        except Exception:
            _log.exception("Telling Redis of successes failed; going on with the next ones.")

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

    def _send(self, commands: Sequence[Command]) -> Awaitable[list[Reply]]:
        """Put commands to those of the same tick; force and evaluate go alone."""
        return self._journeys.put(commands) if commands[-1].verb in _BATCHED else self._send_alone(commands)

    async def _send_alone(self, commands: Sequence[Command]) -> list[Reply]:
        made = self._verbs.commands
        return [read_reply(each.key, await self._link.run(made.alone(each))) for each in commands]

    async def _talk(self, carry: Callable[[Any], Awaitable[Any]], talk: Any) -> None:
        """Carry what the talk asks for, and the replies, until it ends."""
        try:
            step = next(talk)
            while True:
                step = talk.send(await carry(step))
        except StopIteration:
            return

    async def _follow(self) -> None:
        follower = self._link.follower(self._verbs)
        while True:
            try:
                await self._talk(self._link.listen, follower.follow())
            except LostData:
                follower.lose()
            except StoreError:
                self._verbs.mirror.distrust()
                await asyncio.sleep(RETRY_SECONDS)
            except Exception:
                _log.exception("Following Redis failed; trying again.")
                self._verbs.mirror.distrust()
                await asyncio.sleep(RETRY_SECONDS)


def _unsure(key: str) -> None:
    """Strict: no key is known to be healthy."""
