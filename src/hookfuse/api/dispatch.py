"""From a request to an operation and back: who asks, may they, what do they give, what is answered."""

from __future__ import annotations

import logging
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum, IntEnum
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from hookfuse.api import problems
from hookfuse.api.access import may_write
from hookfuse.api.auditing import new_entry, written_down
from hookfuse.api.call import Call
from hookfuse.api.parts import Parts
from hookfuse.api.problems import Problem
from hookfuse.api.rates import Rate
from hookfuse.api.routes import Needs, Operation
from hookfuse.core.access import ApiKey, Role
from hookfuse.core.record import AuditEntry
from hookfuse.errors import HookfuseError

_log = logging.getLogger("hookfuse.api")
_encoder = msgspec.json.Encoder()
_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_JSON = "application/json"


def routes(operations: Sequence[Operation], parts: Parts) -> list[BaseRoute]:
    """One route for each path, with all its methods."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [Route(path, _Endpoint(parts, methods), methods=list(methods)) for path, methods in by_path.items()]


class _Endpoint:
    """The operations of one path, as an ASGI application."""

    def __init__(self, parts: Parts, operations: Mapping[str, Operation]) -> None:
        self._parts = parts
        self._operations = {method: _Prepared(parts, operation) for method, operation in operations.items()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        method = "GET" if request.method == "HEAD" else request.method
        try:
            response = await self._operations[method].answer(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)


class _Prepared:
    """An operation with what decoding needs."""

    def __init__(self, parts: Parts, operation: Operation) -> None:
        self._parts = parts
        self._operation = operation
        self._decoder = None if operation.body is None else msgspec.json.Decoder(operation.body)
        self._query = {} if operation.query is None else _query_fields(operation.query)

    async def answer(self, request: Request) -> Response:
        rate: Rate | None = None
        try:
            key, rate = await self._enter(request)
            response = await self._operate(request, key)
        except Problem as problem:
            response = refusal(problem)
        except HookfuseError as error:
            response = refusal(_logged(error, self._operation))
        except ClientDisconnect:
            raise
        except Exception:
            _log.exception("%s went wrong", self._operation.name)
            response = refusal(problems.internal_error())
        if rate is not None:
            response.headers.update(dict(rate.headers()))
        return response

    async def _enter(self, request: Request) -> tuple[ApiKey, Rate | None]:
        if self._operation.needs is Needs.NOTHING:
            return _NOBODY, None
        found = await self._parts.doorkeeper.find(request.headers.get("authorization", "").encode("latin-1"))
        if found.key is None:
            raise problems.unauthenticated()
        if found.rate is not None and not found.rate.take():
            headers = (("retry-after", "1"), *found.rate.headers())
            raise Problem(429, "rate_limited", "This key has asked too often; wait a second.", headers)
        if not allowed(found.key, self._operation):
            raise problems.forbidden()
        return found.key, found.rate

    async def _operate(self, request: Request, key: ApiKey) -> Response:
        call = Call(self._parts, key, request.path_params)
        if self._operation.finds_app and await call.find_app() is None:
            raise problems.not_found("application")
        arguments: dict[str, Any] = {}
        self._check_names(request)
        if self._operation.query is not None:
            arguments["query"] = self._read_query(request)
        if self._decoder is not None:
            arguments["body"] = _decode(self._decoder, await read_body(request, self._parts.body_limit))
        try:
            result = await self._handle(call, arguments)
        except RecursionError as error:
            raise problems.malformed(error, "body") from error
        status = call.status or self._operation.status
        if self._operation.answer is None:
            return Response(status_code=status)
        return Response(_encoder.encode(result), status, media_type=_JSON)

    async def _handle(self, call: Call, arguments: dict[str, Any]) -> Any:
        operation = self._operation
        if not operation.audited:
            return await operation.handler(call, **arguments)
        async with written_down(call.parts.store, lambda: _entry(operation, call, arguments.get("body"))):
            return await operation.handler(call, **arguments)

    def _check_names(self, request: Request) -> None:
        """A filter that nobody knows is refused: passing over it would answer another question."""
        for name in request.query_params:
            if name not in self._query:
                raise problems.invalid("There is no such parameter here.", "query", name)

    def _read_query(self, request: Request) -> Any:
        given: dict[str, Any] = {}
        for name, kind in self._query.items():
            values = request.query_params.getlist(name)
            if values:
                given[name] = _coerced(values, kind)
        try:
            return msgspec.convert(given, self._operation.query)
        except msgspec.ValidationError as error:
            raise problems.malformed(error, "query") from error


_NOBODY = ApiKey("", Role.READ, "", b"")


def allowed(key: ApiKey, operation: Operation) -> bool:
    """Whether a key may ask for an operation at all, whatever application is meant."""
    match operation.needs:
        case Needs.WRITE:
            return may_write(key)
        case Needs.OVERVIEW:
            return key.app_id is None
        case Needs.ADMIN:
            return key.role is Role.ADMIN
        case _:
            return True


def refusal(problem: Problem) -> Response:
    return Response(problem.body(), problem.status, dict(problem.headers), media_type=problems.CONTENT_TYPE)


async def read_body(request: Request, limit: int) -> bytes:
    """The body, unless it is longer than `limit`: then no more of it is read."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise problems.too_large(limit)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise problems.too_large(limit)
        parts.append(part)
    return b"".join(parts)


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        body.isascii() or body.decode()
        # An order with nothing to say about it needs no body.
        return decoder.decode(body or b"{}")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise problems.unfit_number(body, "body") or problems.malformed(error, "body") from error


def _logged(error: HookfuseError, operation: Operation) -> Problem:
    problem = problems.told(error)
    if problem.status >= 500:
        _log.error("%s was not possible: %s", operation.name, error)
    return problem


def _entry(operation: Operation, call: Call, body: Any) -> AuditEntry:
    app_id = None if call.app_known is None else call.app_known.id
    ids = [value for name, value in call.path.items() if name != "app_id"]
    subject = "/".join([*([app_id] if app_id else []), *ids, *call.touched])
    detail = "" if body is None else ", ".join(_changed(body))
    return new_entry(call.key, operation.name, subject, app_id, detail)


def _changed(body: msgspec.Struct) -> Iterator[str]:
    """The fields of a body that say something; never what they say."""
    for each in msgspec.structs.fields(type(body)):
        value = getattr(body, each.name)
        if value is not None and value != each.default:
            yield each.encode_name


def _query_fields(kind: Any) -> dict[str, Any]:
    return {field.encode_name: _plain(field.type) for field in msgspec.structs.fields(kind)}


def _plain(kind: Any) -> Any:
    """A type without what may be said about it: None, or its bounds."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return next(_plain(each) for each in get_args(kind) if each is not type(None))
    return kind


def _coerced(values: Sequence[str], kind: Any) -> Any:
    """Query parameters are text; what they stand for depends on what is wanted. What does not fit is refused later."""
    if get_origin(kind) is list:
        return [each for value in values for each in value.split(",")]
    value = values[-1]
    if isinstance(kind, type) and issubclass(kind, int | IntEnum) and kind is not bool and _INTEGER.fullmatch(value):
        return int(value)
    if kind is bool and value in ("true", "false"):
        return value == "true"
    if kind is datetime or (isinstance(kind, type) and issubclass(kind, Enum)):
        # A plus sign that was not encoded has become a space.
        return value.replace(" ", "+") if kind is datetime else value
    return value
