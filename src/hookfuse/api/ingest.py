"""Sending a message: the one route that is asked for thousands of times a second.

It does what the others do, with less on the way: no request object, no table. One decoder reads the body and leaves the
payload as it came; the answer is sent when the message is committed. A server may ask for answers without ASGI in
between, which is most of what such a request costs otherwise.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec

from hookfuse.api import problems
from hookfuse.api.access import Known, may_write
from hookfuse.api.applications import ApplicationIn, make
from hookfuse.api.auditing import new_entry, written_down
from hookfuse.api.call import Call
from hookfuse.api.message_body import MessageIn, decode
from hookfuse.api.messages import NO_CONTENT, MessageOut
from hookfuse.api.parts import Parts
from hookfuse.api.problems import Problem
from hookfuse.api.wire import in_ms, instant, instant_or_none
from hookfuse.core.access import ApiKey, Role
from hookfuse.core.ids import ENTROPY_BYTES, IdKind, IdSequence, check_id, check_uid
from hookfuse.core.message import Accepted, NewMessage
from hookfuse.errors import HookfuseError, InvalidInput

_PREFIX: Final = "/api/v1/app/"
_SUFFIX: Final = "/msg"
_LONGEST_KEY = 256
_MANY_DIGITS = 19
_LATEST_MS = 366 * 86_400_000
_MOST_UIDS = 10_000
_UID_TTL = 3.0
_CONTENT_TYPE: Final = (b"content-type", b"application/json")
_PROBLEM_TYPE: Final = (b"content-type", problems.CONTENT_TYPE.encode())

_log = logging.getLogger("hookfuse.api")
_encoder = msgspec.json.Encoder()


def is_way(method: str, path: str) -> bool:
    """Whether this is the way of a message that is sent."""
    return (
        method == "POST"
        and path.endswith(_SUFFIX)
        and path.startswith(_PREFIX)
        and "/" not in path[len(_PREFIX) : -len(_SUFFIX)]
        and len(path) > len(_PREFIX) + len(_SUFFIX)
    )


class Head(NamedTuple):
    """The headers that matter."""

    authorization: bytes
    idempotency: bytes
    length: int
    """Of the body, as announced; 0: it is not."""


class Answer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Ingest:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._doorkeeper = parts.doorkeeper
        self._accept = parts.acceptor.accept
        self.limit = parts.body_limit
        """The longest body that is read."""
        self._uids: dict[str, tuple[str, float]] = {}
        # Lists and FIFO endpoints go by them, so who sends one message after the other finds them in that order.
        self._ids = IdSequence(IdKind.MESSAGE)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        head = read_head(scope["headers"])

        async def read() -> bytes | None:
            return await _read(receive, head.length, self.limit)

        answer = await self.answer(scope["path"], scope["query_string"], head, read)
        if answer is not None:
            await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
            await send({"type": "http.response.body", "body": answer.body})

    async def answer(
        self, path: str, query: bytes, head: Head, read: Callable[[], Awaitable[bytes | None]]
    ) -> Answer | None:
        """The answer to a request; its body is read once it is known who asks. None: the client has left."""
        known: Known | None = None
        try:
            known = self._doorkeeper.known(head.authorization) or await self._doorkeeper.find(head.authorization)
            key = _entered(known)
            body = await read()
            if body is None:
                return None
            taken = await self._take(path[len(_PREFIX) : -len(_SUFFIX)], query, key, body, head.idempotency)
        except Exception as error:
            problem = _told(error)
            return _answer(problem.status, _PROBLEM_TYPE, problem.body(), known, problem.headers)
        return _answer(202, _CONTENT_TYPE, taken, known)

    async def _take(self, named: str, query: bytes, key: ApiKey, body: bytes, idempotency: bytes) -> bytes:
        given = decode(body)
        content = _wants_content(query)
        app_id = await self._app_id(named, key, given.application)
        now_ms = int(time.time() * 1000)
        idempotency_key, fingerprint = _keyed(idempotency, body) if idempotency else (None, b"")
        message = NewMessage(
            self._ids.make(now_ms, random.randbytes(ENTROPY_BYTES)),
            app_id,
            given.event_type,
            bytes(given.payload),
            given.event_id,
            tuple(given.channels) if given.channels else (),
            None if given.deliver_at is None else _deliver_ms(given, now_ms),
            idempotency_key,
            fingerprint,
        )
        answer = await self._accept(message)
        if not isinstance(answer, Accepted):
            self._uids.pop(named, None)
            raise _refused(answer.reason)
        return _encoder.encode(
            MessageOut(
                id=answer.id,
                event_type=message.event_type,
                event_id=message.uid,
                payload=given.payload if content else NO_CONTENT,
                channels=given.channels or None,
                tags=None,
                timestamp=instant(answer.created_ms),
                deliver_at=instant_or_none(message.deliver_ms),
            )
        )

    async def _app_id(self, named: str, key: ApiKey, wanted: ApplicationIn | None) -> str:
        """The id of the application in the path. An id is taken as it is: accepting finds out whether it is there."""
        if named == key.app_id:
            return named
        if named.startswith("app_"):
            app_id: str | None = _checked(named)
            if wanted is not None and key.role is Role.ADMIN and await self._parts.store.application(named) is None:
                app_id = None
        else:
            app_id = await self._by_uid(named)
        if app_id is None and wanted is not None and key.role is Role.ADMIN:
            call = Call(self._parts, key, {"app_id": named})
            async with written_down(
                self._parts.store, lambda: new_entry(key, "create_application", call.touched[0], None)
            ):
                app_id = (await make(call, wanted, wanted.uid or named)).id
        if app_id is None or key.app_id not in (None, app_id):
            raise problems.not_found("application")
        return app_id

    async def _by_uid(self, uid: str) -> str | None:
        known = self._uids.get(uid)
        now = time.monotonic()
        if known is not None and now < known[1]:
            return known[0]
        try:
            found = await self._parts.store.application(check_uid(IdKind.APP, uid))
        except InvalidInput:
            return None
        if found is None:
            return None
        if len(self._uids) >= _MOST_UIDS:
            self._uids.clear()
        self._uids[uid] = (found.id, now + _UID_TTL)
        return found.id


def read_head(headers: Iterable[tuple[bytes, bytes]]) -> Head:
    """The names are in lower case."""
    authorization = idempotency = b""
    length = 0
    for name, value in headers:
        if name == b"authorization":
            authorization = value
        elif name == b"idempotency-key":
            idempotency = value
        elif name == b"content-length" and value.isdigit():
            # None of the digits may be left out: the parser reads them all.
            digits = value.lstrip(b"0")
            length = int(digits or b"0") if len(digits) < _MANY_DIGITS else sys.maxsize
    return Head(authorization, idempotency, length)


def _told(error: Exception) -> Problem:
    if isinstance(error, Problem):
        return error
    if isinstance(error, HookfuseError):
        problem = problems.told(error)
        if problem.status >= 500:
            _log.error("a message was not accepted: %s", error)
        return problem
    _log.error("accepting a message went wrong", exc_info=error)
    return problems.internal_error()


def _answer(
    status: int,
    kind: tuple[bytes, bytes],
    body: bytes,
    known: Known | None,
    more: tuple[tuple[str, str], ...] = (),
) -> Answer:
    headers = [kind, (b"content-length", b"%d" % len(body))]
    if known is not None and known.rate is not None:
        more = (*more, *known.rate.headers())
    if more:
        headers += [(name.encode(), value.encode()) for name, value in more]
    return Answer(status, headers, body)


def _entered(known: Known) -> ApiKey:
    if known.key is None:
        raise problems.unauthenticated()
    if known.rate is not None and not known.rate.take():
        headers = (("retry-after", "1"),)
        raise Problem(429, "rate_limited", "This key has asked too often; wait a second.", headers)
    if not may_write(known.key):
        raise problems.forbidden()
    return known.key


async def _read(receive: Any, announced: int, limit: int) -> bytes | None:
    """The body, unless it is longer than `limit`: then no more of it is read. None: the client has left."""
    if announced > limit:
        raise problems.too_large(limit)
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None
        part = event.get("body", b"")
        size += len(part)
        if size > limit:
            raise problems.too_large(limit)
        more = event.get("more_body", False)
        if not more and not parts:
            return bytes(part)
        parts.append(part)
    return b"".join(parts)


def _wants_content(query: bytes) -> bool:
    """Whether the answer is to hold the payload: the only parameter there is."""
    if not query or query == b"with_content=true":
        return True
    if query == b"with_content=false":
        return False
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name != "with_content":
            raise problems.invalid("There is no such parameter here.", "query", name)
        if value not in ("true", "false"):
            raise problems.invalid("It must be true or false.", "query", name)
    return not query.endswith(b"=false")


def _checked(named: str) -> str | None:
    try:
        return check_id(IdKind.APP, named)
    except InvalidInput:
        return None


def _deliver_ms(given: MessageIn, now_ms: int) -> int:
    assert given.deliver_at is not None
    deliver_ms = in_ms(given.deliver_at)
    if not 0 <= deliver_ms <= now_ms + _LATEST_MS:
        raise problems.invalid("It must be within a year.", "body", "deliverAt")
    return deliver_ms


def _keyed(idempotency: bytes, body: bytes) -> tuple[str, bytes]:
    """An idempotency key, and what tells another request under the same key."""
    key = idempotency.decode("latin-1")
    if len(key) > _LONGEST_KEY or not key.isascii() or not key.isprintable():
        what = f"It must be at most {_LONGEST_KEY} printable ASCII characters."
        raise problems.invalid(what, "header", "idempotency-key")
    return key, blake2b(body, digest_size=16).digest()


def _refused(reason: str) -> Problem:
    if reason == "unknown_application":
        return problems.not_found("application")
    if reason == "uid_taken":
        return Problem(409, "conflict", "There is a message with this eventId already.")
    return Problem(409, "idempotency_mismatch", "This idempotency-key was used for another message.")
