"""Messages go from the parser to the store without ASGI, unless something about them is not plain. Nobody can tell."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hookfuse.api.ingest import Ingest
from hookfuse.core.delivery import Chosen
from hookfuse.core.message import Answer, NewMessage
from tests.service.conftest import Service

pytestmark = pytest.mark.anyio

BODY = json.dumps({"eventType": "invoice.paid", "payload": {"n": 1}}).encode()


class Line:
    """A connection, and the bytes on it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def say(self, *pieces: bytes) -> None:
        self.writer.write(b"".join(pieces))

    async def hear(self) -> tuple[int, dict[str, str], bytes]:
        """One answer."""
        async with asyncio.timeout(10):
            first, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in lines)
            body = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return int(first.split()[1]), headers, body

    async def is_over(self) -> bool:
        async with asyncio.timeout(10):
            return await self._reader.read() == b""


@asynccontextmanager
async def line(service: Service) -> AsyncIterator[Line]:
    host, port = service.url.removeprefix("http://").split(":")
    found = Line(*await asyncio.open_connection(host, int(port)))
    try:
        yield found
    finally:
        found.writer.close()


def head(service: Service, app_id: str, *more: str, path: str = "", version: str = "1.1") -> bytes:
    lines = [
        f"POST {path or f'/api/v1/app/{app_id}/msg'} HTTP/{version}",
        "Host: here",
        f"Authorization: Bearer {service.admin}",
        *more,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def length(body: bytes = BODY) -> str:
    return f"Content-Length: {len(body)}"


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


WAYS: dict[str, Callable[[Service, str], bytes]] = {
    "plain": lambda service, app: head(service, app, length()) + BODY,
    "in chunks": lambda service, app: head(service, app, "Transfer-Encoding: chunked") + chunked(BODY),
    "escaped": lambda service, app: (
        head(service, app, length(), path=f"/api/v1/app/{app.replace('_', '%5F')}/msg") + BODY
    ),
    "whole address": lambda service, app: head(service, app, length(), path=f"http://here/api/v1/app/{app}/msg") + BODY,
    "with a question": lambda service, app: (
        head(service, app, length(), path=f"/api/v1/app/{app}/msg?with_content=true") + BODY
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_every_way_leads_to_the_same_answer(idle: Service, way: str) -> None:
    """However a message is written, its answer has the same status, headers and fields, and it is stored once."""
    app_id = await idle.app()
    await idle.endpoint(app_id)
    async with line(idle) as here:
        here.say(WAYS[way](idle, app_id))
        status, headers, body = await here.hear()
    assert status == 202
    assert set(headers) == {"date", "content-type", "content-length"}
    assert headers["content-type"] == "application/json"
    answer = json.loads(body)
    assert answer["eventType"] == "invoice.paid"
    assert answer["payload"] == {"n": 1}
    assert await idle.store.count(Chosen(app_id)) == 1


async def test_messages_do_not_pass_through_asgi(idle: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain message never asks the ASGI application; one of unknown length does."""
    asked: list[str] = []
    through = Ingest.__call__

    async def counting(self: Ingest, scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await through(self, scope, receive, send)

    monkeypatch.setattr(Ingest, "__call__", counting)
    app_id = await idle.app()
    async with line(idle) as here:
        here.say(WAYS["plain"](idle, app_id))
        assert (await here.hear())[0] == 202
        assert asked == []
        here.say(WAYS["in chunks"](idle, app_id))
        assert (await here.hear())[0] == 202
    assert asked == [f"/api/v1/app/{app_id}/msg"]


@pytest.mark.parametrize("pieces", [2, 7, 400])
async def test_a_message_in_pieces(idle: Service, pieces: int) -> None:
    """A message that arrives in pieces is put together, wherever it is cut."""
    app_id = await idle.app()
    sent = WAYS["plain"](idle, app_id)
    size = -(-len(sent) // pieces)
    async with line(idle) as here:
        for at in range(0, len(sent), size):
            here.say(sent[at : at + size])
            await here.writer.drain()
            await asyncio.sleep(0)
        assert (await here.hear())[0] == 202


async def test_many_on_one_connection(idle: Service) -> None:
    """Requests that do not wait for answers are answered in their order, short and long ways mixed."""
    app_id = await idle.app()
    await idle.endpoint(app_id)
    other = b"GET /api/v1/app/%b HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer %b\r\n\r\n" % (
        app_id.encode(),
        idle.admin.encode(),
    )
    plain, in_chunks = WAYS["plain"](idle, app_id), WAYS["in chunks"](idle, app_id)
    async with line(idle) as here:
        here.say(plain, other, plain, in_chunks, plain, plain, other)
        statuses = [(await here.hear())[0] for _ in range(7)]
    assert statuses == [202, 200, 202, 202, 202, 202, 200]
    assert await idle.store.count(Chosen(app_id)) == 5


@pytest.mark.parametrize(
    ("more", "version", "ends"),
    [((), "1.1", False), (("Connection: close",), "1.1", True), ((), "1.0", True)],
    ids=["kept", "close", "1.0"],
)
async def test_whether_a_connection_is_kept(idle: Service, more: tuple[str, ...], version: str, ends: bool) -> None:
    """A connection stays open unless the client says otherwise, or speaks HTTP/1.0."""
    app_id = await idle.app()
    async with line(idle) as here:
        here.say(head(idle, app_id, length(), *more, version=version), BODY)
        status, headers, _ = await here.hear()
        assert (status, headers.get("connection")) == (202, "close" if ends else None)
        if ends:
            assert await here.is_over()
        else:
            here.say(WAYS["plain"](idle, app_id))
            assert (await here.hear())[0] == 202


async def test_what_is_refused(idle: Service) -> None:
    """The short way refuses what the long one does, in the same words."""
    app_id = await idle.app()
    reader = await idle.key("read")
    long = json.dumps({"eventType": "invoice.paid", "payload": "x" * 256 * 1024}).encode()
    refused = [
        (app_id, "nobody", BODY, 401),
        (app_id, reader, BODY, 403),
        (app_id[:-1] + "0", idle.admin, BODY, 404),
        (app_id, idle.admin, long, 413),
        (app_id, idle.admin, b"{", 422),
        (app_id, idle.admin, b'{"eventType": "a b", "payload": 1}', 422),
        (f"{app_id}/", idle.admin, BODY, 404),
    ]
    for app, key, body, status in refused:
        answers = []
        for framing, framed in ((length(body), body), ("Transfer-Encoding: chunked", chunked(body))):
            async with line(idle) as here:
                here.say(head(idle, app, framing).replace(idle.admin.encode(), key.encode()), framed)
                found, headers, problem = await here.hear()
                answers.append((found, {**headers, "date": ""}, problem))
        assert answers[0] == answers[1]
        assert answers[0][0] == status
        assert answers[0][1]["content-type"] == "application/problem+json"


async def test_lengths_of_many_digits(idle: Service) -> None:
    """A length counts with all its digits: what is announced as too long is refused before any of it is read."""
    app_id = await idle.app()
    async with line(idle) as here:
        here.say(head(idle, app_id, f"Content-Length: {len(BODY):030}"), BODY)
        assert (await here.hear())[0] == 202
    for announced in ("0" * 19 + "1" + "0" * 11, str(256 * 1024 + 1)):
        async with line(idle) as here:
            here.say(head(idle, app_id, f"Content-Length: {announced}"), BODY)
            assert (await here.hear())[0] == 413


async def test_a_stranger_with_much_to_say(idle: Service) -> None:
    """Whoever has no key is refused before a large body is read."""
    app_id = await idle.app()
    async with line(idle) as here:
        here.say(head(idle, app_id, "Content-Length: 200000").replace(b"Bearer ", b"Bearer x"), b"{")
        assert (await here.hear())[0] == 401


async def test_waiting_for_leave_to_go_on(idle: Service) -> None:
    """A client that asks whether it may send its body is told so, and is answered."""
    app_id = await idle.app()
    async with line(idle) as here:
        here.say(head(idle, app_id, length(), "Expect: 100-continue"))
        assert (await here.hear())[0] == 100
        here.say(BODY)
        assert (await here.hear())[0] == 202


class Slow:
    """An acceptor that answers when it is told to."""

    def __init__(self, service: Service) -> None:
        self._accept = service.station.acceptor.accept
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    async def accept(self, message: NewMessage) -> Answer:
        self.begun.set()
        await self.may_end.wait()
        return await self._accept(message)


@pytest.fixture
def slow(idle: Service, monkeypatch: pytest.MonkeyPatch) -> Slow:
    found = Slow(idle)
    take = Ingest._take

    async def taking(self: Ingest, *args: Any) -> bytes:
        self._accept = found.accept
        return await take(self, *args)

    monkeypatch.setattr(Ingest, "_take", taking)
    return found


async def test_a_client_that_leaves(idle: Service, slow: Slow) -> None:
    """A client that leaves before its answer loses the answer, and not the message."""
    app_id = await idle.app()
    await idle.endpoint(app_id)
    async with line(idle) as here:
        here.say(WAYS["plain"](idle, app_id))
        await slow.begun.wait()
    slow.may_end.set()

    async def is_stored() -> bool:
        return await idle.store.count(Chosen(app_id)) == 1

    await idle.until(is_stored)


async def test_a_client_that_leaves_with_more_to_come(idle: Service, slow: Slow) -> None:
    """A client that leaves with several requests under way is not written to, and nothing goes wrong by it."""
    wrong: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: wrong.append(context))
    app_id = await idle.app()
    await idle.endpoint(app_id)
    async with line(idle) as here:
        here.say(WAYS["plain"](idle, app_id) * 3)
        await slow.begun.wait()
    slow.may_end.set()

    async def is_over() -> bool:
        return not idle.server.server_state.tasks

    await idle.until(is_over)
    gc.collect()
    assert wrong == []
    assert await idle.store.count(Chosen(app_id)) >= 1


async def test_a_server_that_ends(idle: Service, slow: Slow) -> None:
    """A server that is told to end answers what it has begun, and closes the connection behind it."""
    app_id = await idle.app()
    async with line(idle) as here, line(idle) as beside:
        here.say(WAYS["plain"](idle, app_id))
        await slow.begun.wait()
        for each in list(idle.server.server_state.connections):
            each.shutdown()
        assert await beside.is_over()
        slow.may_end.set()
        status, headers, _ = await here.hear()
        assert (status, headers["connection"]) == (202, "close")
        assert await here.is_over()
