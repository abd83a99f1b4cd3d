"""The Redis store for threads: one reader thread and one flusher thread per process, whatever the number of keys."""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from hookfuse.core.admission import Admission
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order, Snapshot, Transition
from hookfuse.core.window import Counts
from hookfuse.errors import BreakerOpen, StoreError, StoreUnavailable
from hookfuse.stores.redis.commands import Command
from hookfuse.stores.redis.flights import FLUSH_SECONDS, Flights, next_pause
from hookfuse.stores.redis.link import open_link
from hookfuse.stores.redis.tail import RETRY_SECONDS, LostData, check_meta
from hookfuse.stores.redis.target import Settings
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
        self._link = open_link(settings)
        self._checked = False
        self._prepare()
        _sessions.add(self)

    def _prepare(self) -> None:
        self._lock = threading.Lock()
        self._flights = Flights(self._verbs, self._link, self._lock)
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

    def part(self, key: str) -> str:
        return self._link.part(key)

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
        waiting = self._flights.take(admission.key)
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
        return self._verbs.read_snapshot(key, policy, self._link.run(self._verbs.commands.inspect(key)))

    def unhealthy(self, policy_for: Callable[[str], Policy]) -> Iterator[Snapshot]:
        self._start()
        self.flush()
        for call, names in self._verbs.pages(self._link.ask(self._verbs.ask_names())):
            yield from self._verbs.read_page(names, self._link.run(call), policy_for)

    def flush(self) -> None:
        """Tell the store what is buffered, now."""
        self._flights.flush()

    def catch_up(self, seconds: float = 2.0) -> None:
        """Wait until this process has heard of everything that happened so far."""
        self._start()
        self.flush()
        tops = self._link.ask(self._verbs.ask_tops())
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
            self._link.hang_up()
            for thread in self._threads:
                thread.join(timeout=5)
            self._link.close()

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
            self._talk(self._link.ask, check_meta(self._verbs))
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
        """Run commands of one key."""
        made = self._verbs.commands
        if len(commands) == 1:
            return [read_reply(commands[0].key, self._link.run(made.alone(commands[0])))]
        (call,) = made.batches(commands)
        return self._verbs.learn_all(call, self._link.run(call))

    def _talk(self, carry: Callable[[Any], Any], talk: Any) -> None:
        """Carry what the talk asks for, and the replies, until it ends."""
        try:
            step = next(talk)
            while not self._closing.is_set():
                step = talk.send(carry(step))
        except StopIteration:
            return

    def _read(self) -> None:
        follower = self._link.follower(self._verbs)
        while not self._closing.is_set():
            try:
                self._talk(self._link.listen, follower.follow())
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
        self._link = open_link(self._settings)
        self._prepare()


_sessions: weakref.WeakSet[ThreadSession] = weakref.WeakSet()


def _renew_all() -> None:
    for session in list(_sessions):
        session._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
