"""Requests to the API within the process: no socket, but the same application, checks and answers."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import urlencode

import msgspec
from starlette.types import ASGIApp, Message

Headers: TypeAlias = Sequence[tuple[bytes, bytes]]

PREFIX = "/api/v1"
_STEP = re.compile(r"[A-Za-z0-9_\-][A-Za-z0-9_.\-]{0,299}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Call:
    """One request, as it is sent and as it is shown."""

    method: str
    path: str
    """Below the prefix; made with `at`."""
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    data: Any
    """Decoded JSON; None without a body."""
    content: bytes = b""
    """As it came: decoding and encoding would change numbers and doubled names."""

    @property
    def ok(self) -> bool:
        return self.status < 400


class Refused(Exception):
    """The API did not give what a page needs."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.status = answer.status
        self.faults = faults(answer)


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and with which field; empty: with all of it."""

    field: str
    says: str


def faults(answer: Answer) -> list[Fault]:
    """What the API said about a request that it refused."""
    detail = answer.data.get("detail") if isinstance(answer.data, dict) else None
    if isinstance(detail, list):
        return [Fault(".".join(each["loc"][1:]), each["msg"]) for each in detail]
    return [Fault("", str(detail or f"The API answered {answer.status}."))]


class _Message(msgspec.Struct):
    payload: msgspec.Raw


_message = msgspec.json.Decoder(_Message)


class ApiClient:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def get(self, key: str, path: str, query: Mapping[str, str] | None = None) -> Any:
        """The JSON of an answer; anything but a success is raised as `Refused`."""
        answer = await self.send(key, Call("GET", path, query=query))
        if not answer.ok:
            raise Refused(answer)
        return answer.data

    async def payload(self, key: str, path: str) -> str:
        """The payload of the message at this path, sign for sign."""
        answer = await self.send(key, Call("GET", path))
        if not answer.ok:
            raise Refused(answer)
        return bytes(_message.decode(answer.content).payload).decode()

    async def send(self, key: str, call: Call) -> Answer:
        headers = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json")]
        return await ask(self._app, replace(call, path=PREFIX + call.path), headers)


async def ask(app: ASGIApp, call: Call, headers: Headers = (), client: tuple[str, int] | None = None) -> Answer:
    """One request to an application in this process; the call's path is the whole path."""
    body = b"" if call.body is None else json.dumps(call.body).encode()
    status, parts = 500, []

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        else:
            parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": call.method,
        "scheme": "http",
        "path": call.path,
        "raw_path": call.path.encode(),
        "root_path": "",
        "query_string": urlencode(call.query or {}).encode(),
        "headers": [*headers, (b"content-length", str(len(body)).encode())],
        "client": client,
        "server": None,
    }
    await app(scope, receive, send)
    content = b"".join(parts)
    return Answer(status, json.loads(content) if content else None, content)


def at(*steps: str) -> str:
    """A path of these words and ids. What could be neither names nothing, and must not lead elsewhere."""
    for step in steps:
        if not _STEP.fullmatch(step):
            raise Refused(Answer(404, {"detail": "There is no such thing."}))
    return "".join(f"/{step}" for step in steps)
