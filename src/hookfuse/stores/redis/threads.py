"""The Redis store for threads: one reader thread and one flusher thread per process, whatever the number of keys."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import redis

from hookfuse.core.admission import Admission
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.errors import BreakerOpen, StoreError, StoreUnavailable
from hookfuse.stores.redis.commands import Call, Command
from hookfuse.stores.redis.connect import Settings, translated
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


class ThreadSession:
    """Breakers in Redis, for threads."""

    def __init__(self, settings: Settings, *, strict: bool) -> None:
        self._settings = settings
        self._verbs = Verbs(settings.keys, strict=strict, server_clock=settings.server_clock)
        self.timer = self._verbs.timer
        self._client = settings.client()
        self._reader = settings.client(wait=BLOCK_MS / 1000)
        self._checked = False
        self._prepare()
        _sessions.add(self)

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._taking_off = threading.Lock()
        self._flight = _Flight()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._threads: list[threading.Thread] = []

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
        latency_ms = (self.timer() - started) * 1000
        lock = self._lock
        lock.acquire()
        try:
            self._verbs.outbox.add(key, policy, generation, latency_ms)
        finally:
            lock.release()
        if not self._wake.is_set():
            self._wake.set()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        unsubscribe = self._verbs.announcer.subscribe(observer)
        self._start()
        return unsubscribe

    def admit(self, key: str, policy: Policy) -> Admission:
        self._start()
        return self._drive(self._verbs.admit(key, policy))

    def record(
        self, admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None
    ) -> Transition | None:
        if self._verbs.buffers(admission, outcome):
            with self._lock:
                latency_ms = -1.0 if latency is None else latency * 1000
                self._verbs.outbox.add(admission.key, admission.policy, admission.generation, latency_ms)
            self._wake.set()
            return None
        with self._lock:
            waiting = self._verbs.outbox.take(admission.key)
            flight = self._flight
        if admission.key in flight.keys:
            # Successes of this key are under way; what came later must not arrive before them.
            flight.wait()
        return self._drive(self._verbs.record(admission, outcome, latency, error, waiting))

    def release(self, admission: Admission) -> None:
        self._drive(self._verbs.release(admission))

    def force(
        self, key: str, policy: Policy, order: Order, *, reason: str, until: float | None, actor: str
    ) -> Transition | None:
        self._start()
        return self._drive(self._verbs.force(key, policy, order, reason, until, actor))

    def evaluate(self, key: str, policy: Policy, tally: Counts | None) -> tuple[Transition, ...]:
        self._start()
        self.flush()
        return self._drive(self._verbs.evaluate(key, policy, tally))

    def inspect(self, key: str, policy: Policy) -> Snapshot:
        self._start()
        self.flush()
        return self._verbs.read_snapshot(key, policy, self._run(self._verbs.commands.inspect(key)))

    def unhealthy(self, policy_for: Callable[[str], Policy]) -> Iterator[Snapshot]:
        self._start()
        for shard in range(self._settings.keys.shards):
            with translated("listing breakers"):
                keys: list[Any] = list(self._client.hkeys(self._settings.keys.index(shard)))
            for key in keys:
                name = key.decode()
                found = self.inspect(name, policy_for(name))
                if not found.healthy:
                    yield found

    def flush(self) -> None:
        """Tell the store what is buffered, now."""
        outbox = self._verbs.outbox
        refused: StoreError | None = None
        with self._taking_off:
            with self._lock:
                parts = outbox.parts(SHARDS_AT_ONCE)
            # A few shards at a time: what has not left yet can go with a failure.
            for keys in parts:
                with self._lock:
                    waiting = [command for key in keys for command in outbox.take(key)]
                    self._flight = flight = _Flight(frozenset(keys))
                try:
                    self._fly(waiting)
                except StoreUnavailable as lost:
                    flight.lost = lost
                    with self._lock:
                        # Told once it is back, they would count as successes of that time.
                        outbox.clear()
                    raise
                except StoreError as error:
                    refused = error
                finally:
                    self._flight = _Flight()
                    flight.landed.set()
        if refused is not None:
            raise refused

    def _fly(self, waiting: Sequence[Command]) -> None:
        refused: StoreError | None = None
        calls = list(self._verbs.commands.batches(waiting))
        for call, result in zip(calls, self._run_all(calls), strict=True):
            if isinstance(result, StoreError):
                refused = result
                continue
            for command, reply in zip(call.commands, result, strict=True):
                self._verbs.learn(read_reply(command.key, reply))
        if refused is not None:
            raise refused

    def catch_up(self, seconds: float = 2.0) -> None:
        """Wait until this process has heard of everything that happened so far."""
        self._start()
        self.flush()
        keys = self._settings.keys
        with translated("reading the streams"):
            pipe = self._client.pipeline(transaction=False)
            for shard in range(keys.shards):
                pipe.xrevrange(keys.stream(shard), count=1)
            tops = pipe.execute()
        deadline = time.monotonic() + seconds
        while not self._verbs.has_reached(tops):
            if time.monotonic() > deadline:
                raise StoreUnavailable("The streams of Redis could not be followed in time.")
            time.sleep(0.0005)

    def close(self) -> None:
        """Flush, and end the threads."""
        try:
            if self._checked:
                self.flush()
        finally:
            self._closing.set()
            self._wake.set()
            self._reader.connection_pool.disconnect()
            for thread in self._threads:
                thread.join(timeout=5)
            for client in (self._client, self._reader):
                client.connection_pool.disconnect()

    def _start(self) -> None:
        if self._threads:
            return
        self._check()
        with self._lock:
            if not self._threads:
                targets = (self._read, self._flush) if not self._verbs.strict else (self._read,)
                self._threads = [
                    threading.Thread(target=target, name=f"hookfuse-redis{target.__name__}", daemon=True)
                    for target in targets
                ]
                for thread in self._threads:
                    thread.start()

    def _check(self) -> None:
        if not self._checked:
            self._talk(self._client, check_meta(self._verbs))
            self._checked = True

    def _drive(self, verb: Verb[T]) -> T:
        try:
            commands = next(verb)
            while True:
                commands = verb.send(self._send(commands))
        except StopIteration as done:
            result: T = done.value
            return result

    def _send(self, commands: Sequence[Command]) -> list[Reply]:
        made = self._verbs.commands
        if len(commands) == 1 and commands[0].verb != "oks":
            return [read_reply(commands[0].key, self._run(made.alone(commands[0])))]
        replies: dict[int, Reply] = {}
        for call in made.batches(commands):
            for command, reply in zip(call.commands, self._run(call), strict=True):
                replies[id(command)] = read_reply(command.key, reply)
        for reply in replies.values():
            self._verbs.learn(reply)
        return [replies[id(command)] for command in commands]

    def _run_all(self, calls: Sequence[Call]) -> list[Any]:
        """What each call returned, or the error that it alone had."""
        known = script("batch", self._settings.includes)
        with translated("running a batch"):
            pipe = self._client.pipeline(transaction=False)
            for call in calls:
                pipe.evalsha(known.sha, len(call.keys), *call.keys, *call.args)
            results: list[Any] = pipe.execute(raise_on_error=False)
        for place, call in enumerate(calls):
            try:
                with translated("running a batch"):
                    if isinstance(results[place], redis.exceptions.NoScriptError):
                        results[place] = self._run(call)
                    elif isinstance(results[place], Exception):
                        raise results[place]
            except StoreError as error:
                results[place] = error
        return results

    def _run(self, call: Call) -> Any:
        known = script(call.script, self._settings.includes)
        with translated(f"running {call.script}"):
            try:
                return self._client.evalsha(known.sha, len(call.keys), *call.keys, *call.args)
            except redis.exceptions.NoScriptError:
                # Sending the source runs it at once, so no flush of the scripts can come between.
                return self._client.eval(known.source, len(call.keys), *call.keys, *call.args)

    def _talk(self, client: redis.Redis, talk: Any) -> None:
        """Carry raw commands and replies until the talk ends."""
        try:
            requests: list[Raw] = next(talk)
            while not self._closing.is_set():
                with translated("following the streams"):
                    pipe = client.pipeline(transaction=False)
                    for request in requests:
                        pipe.execute_command(*request)  # type: ignore[no-untyped-call]
                    replies = pipe.execute()
                requests = talk.send(replies)
        except StopIteration:
            return

    def _read(self) -> None:
        follower = Follower(self._verbs, self._settings.includes)
        while not self._closing.is_set():
            try:
                self._talk(self._reader, follower.follow())
            except LostData:
                follower.lose()
            except StoreError:
                self._verbs.mirror.distrust()
                self._closing.wait(RETRY_SECONDS)
            except Exception:
                # `close` takes the connection away under the reader, and then the driver fails in ways of its own.
                if not self._closing.is_set():
                    _log.exception("Following Redis failed; trying again.")
                    self._verbs.mirror.distrust()
                    self._closing.wait(RETRY_SECONDS)

    def _flush(self) -> None:
        pause = FLUSH_SECONDS
        while not self._closing.is_set():
            self._wake.wait()
            self._closing.wait(pause)
            self._wake.clear()
            began = time.monotonic()
            try:
                self.flush()
                pause = next_pause(time.monotonic() - began)
            except StoreError:
                # Maybe lost, never doubled: an outcome that timed out is not sent again.
                self._verbs.mirror.distrust()
            except Exception:
                _log.exception("Telling Redis of successes failed; going on with the next ones.")

    def _after_fork_in_child(self) -> None:
        """A child drops what its parent has buffered, and begins its own threads when it is first used."""
        self._verbs = Verbs(self._settings.keys, strict=self._verbs.strict, server_clock=self._settings.server_clock)
        self._client = self._settings.client()
        self._reader = self._settings.client(wait=BLOCK_MS / 1000)
        self._prepare()


class _Flight:
    """Successes on their way; `wait` returns when they have arrived."""

    def __init__(self, keys: frozenset[str] = frozenset()) -> None:
        self.keys = keys
        self.landed = threading.Event()
        self.lost: StoreUnavailable | None = None

    def wait(self) -> None:
        self.landed.wait()
        if self.lost is not None:
            # Whoever waited for this journey has waited long enough.
            raise self.lost


_sessions: weakref.WeakSet[ThreadSession] = weakref.WeakSet()


def _renew_all() -> None:
    for session in list(_sessions):
        session._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
