"""Places where a process ends as if killed, named in HOOKFUSE_TEST_STOP: `after_send`, or `after_send:3` for the third.

With `after_send:3:SIGSTOP` it stands still there, until it is told to go on.

    before_insert   a batch of messages is about to be stored
    after_insert    it is in the tables, and not yet committed
    after_commit    it is committed, and nobody has been told
    before_reply    the answer is known, and not yet written to the client
    after_send      an endpoint has answered, and nothing was settled
    poison          a payload says so
    transition      a breaker has changed, and nothing else has
    before_keep     a transition is about to be written down, by the breaker's own store or by the chronicle
    after_keep      it is committed
    before_stop     an endpoint is about to be disabled
    in_outbox       its notice is in the outbox, and not yet committed
    after_stop      it is disabled and its notice is committed, and nothing was settled
    notice_claimed  a notice was claimed, and nothing was sent
    notice_posted   its receiver has answered, and nothing was settled
    notice_settled  it is settled

Only the tests' own program arms them, by wrapping what it imports.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

from hookfuse import AsyncBreakers
from hookfuse.core.destination import Destination
from hookfuse.core.sending import Request, SendResult
from hookfuse.stores import sqlite
from hookfuse.stores.postgres import PostgresStore
from hookfuse.stores.postgres import outbox as postgres_outbox
from hookfuse.stores.sqlite import SqliteStore
from hookfuse.stores.sqlite import outbox as sqlite_outbox
from hookfuse.transport import HttpSender
from hookfuse.transport.connection import Answered

POISON = b"poison"
COMMITTING = 0.2
"""Seconds after which a statement that stores messages is surely at its commit, where a test has made that slow."""


class _Armed:
    def __init__(self) -> None:
        self.point = ""
        self.left = 0
        self.signal = signal.SIGKILL


_armed = _Armed()


def arm(text: str) -> None:
    """Die at this point, when it is reached for the nth time, or stand still."""
    point, times, name, *_ = (*text.split(":"), "", "")
    _armed.point, _armed.left = point, int(times or 1)
    _armed.signal = signal.Signals[name or "SIGKILL"]
    if _armed.point:
        _wrap_stores()
        _wrap_notices()
        _wrap_sender()


def reach(point: str) -> None:
    if point == _armed.point:
        _armed.left -= 1
        if _armed.left == 0:
            os.kill(os.getpid(), _armed.signal)


def _wrap_stores() -> None:
    for kind in (SqliteStore, PostgresStore):
        _wrap_accept(kind)
    # The name by which the store calls what inserts; to the type checker it is no export.
    inserts: Any = sqlite
    insert = inserts.accept

    def inserting(*args: Any) -> Any:
        answers = insert(*args)
        reach("after_insert")
        return answers

    inserts.accept = inserting


def _wrap_notices() -> None:
    for kind in (SqliteStore, PostgresStore):
        _around(kind, "stop_endpoint", "before_stop", "after_stop")
        _around(kind, "claim_notices", None, "notice_claimed")
        _around(kind, "settle_notice", None, "notice_settled")
    _around(SqliteStore, "keep_breakers", "before_keep", "after_keep", only=lambda rows, last, made: made)
    _around(PostgresStore, "keep_transitions", "before_keep", "after_keep")
    _around(AsyncBreakers, "record", None, "transition")
    _wrap_outboxes(sqlite_outbox, postgres_outbox)


def _wrap_outboxes(in_sqlite: Any, in_postgres: Any) -> None:
    announce, announce_there = in_sqlite.announce, in_postgres.announce

    def announcing(*args: Any) -> None:
        announce(*args)
        reach("in_outbox")

    async def announcing_there(*args: Any) -> None:
        await announce_there(*args)
        reach("in_outbox")

    in_sqlite.announce, in_postgres.announce = announcing, announcing_there


def _around(
    kind: Any, name: str, before: str | None, after: str, only: Callable[..., Any] = lambda *args, **more: True
) -> None:
    """Reach `before` when it is called, and `after` when it has returned something."""
    method = getattr(kind, name)

    async def wrapped(self: Any, *args: Any, **more: Any) -> Any:
        counts = only(*args, **more)
        if before is not None and counts:
            reach(before)
        result = await method(self, *args, **more)
        if counts and (result or before is not None):
            reach(after)
        return result

    setattr(kind, name, wrapped)


def _wrap_accept(kind: Any) -> None:
    accept = kind.accept

    async def accepting(self: Any, messages: Any) -> Any:
        reach("before_insert")
        if kind is PostgresStore and _armed.point == "after_insert":
            asyncio.get_running_loop().call_later(COMMITTING, reach, "after_insert")
        answers = await accept(self, messages)
        reach("after_commit")
        return answers

    kind.accept = accepting


def _wrap_sender() -> None:
    send, send_at_once = HttpSender.send, HttpSender.send_at_once

    async def sending(self: HttpSender, request: Request) -> SendResult:
        _touch(request)
        result = await send(self, request)
        if result.succeeded:
            a_notice = any(value.startswith("ntc_") for _, value in request.headers)
            reach("notice_posted" if a_notice else "after_send")
        return result

    def sending_at_once(
        self: HttpSender, destination: Destination, make: Callable[[], Request], answered: Answered
    ) -> Callable[[], None] | None:
        def making() -> Request:
            request = make()
            _touch(request)
            return request

        def hearing(result: SendResult | None) -> None:
            if result is not None and result.succeeded:
                reach("after_send")
            answered(result)

        return send_at_once(self, destination, making, hearing)

    HttpSender.send = sending  # type: ignore[method-assign]
    HttpSender.send_at_once = sending_at_once  # type: ignore[method-assign]


def _touch(request: Request) -> None:
    if POISON in request.body:
        reach("poison")
