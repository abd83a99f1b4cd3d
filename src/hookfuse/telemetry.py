"""Who is told of what happened, in order, and never while a lock is held."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeAlias

from hookfuse.core.state import Transition

Observer: TypeAlias = Callable[[Transition], object]

_log = logging.getLogger("hookfuse")


class Announcer:
    """Hands each transition to every observer once, in the order in which they were queued.

    A store queues while it holds its lock and calls `deliver` after letting go. Of several threads that
    deliver at once one does all the work, so no observer sees a later transition before an earlier one;
    an observer may itself call breakers. One that raises is logged and does not disturb the others.
    """

    def __init__(self) -> None:
        self._observers: tuple[Observer, ...] = ()
        self._pending: deque[Transition] = deque()
        self._changing = threading.Lock()
        self._delivering = threading.Lock()

    def subscribe(self, observer: Observer) -> Callable[[], None]:
        """Returns the function that ends the subscription."""
        # Subscribing the same function twice is two subscriptions, hence a wrapper with its own identity.
        entry: Observer = lambda transition: observer(transition)  # noqa: E731
        with self._changing:
            self._observers = (*self._observers, entry)

        def unsubscribe() -> None:
            with self._changing:
                self._observers = tuple(each for each in self._observers if each is not entry)

        return unsubscribe

    def queue(self, transitions: Iterable[Transition]) -> None:
        self._pending.extend(transitions)

    def deliver(self) -> None:
        # Whoever queues after the delivering thread's last look finds the lock free, or is seen by it.
        while self._pending and self._delivering.acquire(blocking=False):
            try:
                while self._pending:
                    self._tell(self._pending.popleft())
            finally:
                self._delivering.release()

    def forget(self) -> None:
        """A forked child drops what its parent has still to tell."""
        self._pending.clear()
        self._changing = threading.Lock()
        self._delivering = threading.Lock()

    def _tell(self, transition: Transition) -> None:
        for observer in self._observers:
            try:
                observer(transition)
            except Exception:
                _log.exception("An observer failed on the transition of %r; the others go on.", transition.key)
