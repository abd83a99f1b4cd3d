"""Accepting messages: callers at the same time share a commit, each with an answer of its own."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from hookfuse.core.message import Answer, NewMessage, check_message
from hookfuse.errors import StoreUnavailable
from hookfuse.ports import Lanes

_MOST_AT_ONCE = 500
_MOST_BYTES = 8 << 20


class _Waiting(NamedTuple):
    message: NewMessage
    answer: asyncio.Future[Answer]


class Acceptor:
    """One journey to the database at a time; what is asked meanwhile goes with the next.

    Nobody waits longer than `patience` seconds: behind a journey that waits for a lock, the next one would too.
    """

    def __init__(self, store: Lanes, *, most_waiting: int = 10_000, patience: float = 4.5) -> None:
        self._store = store
        self._most_waiting = most_waiting
        self._patience = patience
        self._waiting: list[_Waiting] = []
        self._patient: deque[tuple[float, asyncio.Future[Answer]]] = deque()
        self._watch: asyncio.TimerHandle | None = None
        self._journey: asyncio.Task[None] | None = None

    async def accept(self, message: NewMessage) -> Answer:
        """Returns once the message is committed. Who is cancelled or loses patience cannot know whether it was."""
        check_message(message)
        if len(self._waiting) >= self._most_waiting:
            raise StoreUnavailable("More messages are waiting to be stored than this process takes; send it again.")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append(_Waiting(message, answer))
        self._patient.append((loop.time() + self._patience, answer))
        if self._watch is None:
            self._watch = loop.call_later(self._patience, self._lose_patience)
        if self._journey is None:
            self._journey = loop.create_task(self._travel(), name="hookfuse-accept")
        return await answer

    async def close(self) -> None:
        """Wait until everyone has an answer."""
        while self._journey is not None:
            await asyncio.wait([self._journey])

    async def _travel(self) -> None:
        try:
            while batch := self._take():
                try:
                    answers = await self._store.accept([each.message for each in batch])
                except BaseException as error:
                    _answer_all(batch, error)
                    if not isinstance(error, Exception):
                        raise
                else:
                    for each, answer in zip(batch, answers, strict=True):
                        if not each.answer.done():
                            each.answer.set_result(answer)
                while self._patient and self._patient[0][1].done():
                    self._patient.popleft()
        finally:
            self._journey = None
            if self._waiting:
                _answer_all(self._waiting, StoreUnavailable("The program is ending; nothing was stored."))
                self._waiting = []

    def _take(self) -> list[_Waiting]:
        """The first that still wait, as many as one transaction should carry."""
        self._waiting = [each for each in self._waiting if not each.answer.done()]
        size = count = 0
        for each in self._waiting[:_MOST_AT_ONCE]:
            size += len(each.message.payload)
            if count and size > _MOST_BYTES:
                break
            count += 1
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    def _lose_patience(self) -> None:
        """One timer for all: those who came first lose it first."""
        loop = asyncio.get_running_loop()
        while self._patient and (self._patient[0][1].done() or self._patient[0][0] <= loop.time()):
            _, answer = self._patient.popleft()
            if not answer.done():
                answer.set_exception(
                    StoreUnavailable("The database did not answer in time; send the message again, under the same key.")
                )
        self._watch = loop.call_at(self._patient[0][0], self._lose_patience) if self._patient else None


def _answer_all(batch: list[_Waiting], error: BaseException) -> None:
    # A cancelled journey must not look like a cancelled caller.
    shown = error if isinstance(error, Exception) else StoreUnavailable("The program is ending.")
    for each in batch:
        if not each.answer.done():
            each.answer.set_exception(shown)
