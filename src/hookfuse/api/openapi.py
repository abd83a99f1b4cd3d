"""The OpenAPI document, made from the table of operations and the models that decode and encode them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec

from hookfuse.api import problems
from hookfuse.api.message_body import MessageIn
from hookfuse.api.messages import ContentQuery, MessageOut
from hookfuse.api.routes import PREFIX, Needs, Operation

_REF = "#/components/schemas/{name}"
_GENERIC = re.compile(r"Page_(\w+)_")
_JSON = "application/json"
_IDS = {
    "app_id": "The application's id or uid.",
    "endpoint_id": "The endpoint's id or uid.",
    "msg_id": "The message's id or eventId.",
    "attempt_id": "The attempt's id.",
    "event_type_name": "The event type's name.",
    "key_id": "The key's id.",
    "task_id": "The task's id.",
}


def document(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """The whole document, as plain data."""
    everything = [*operations, SEND_MESSAGE]
    models = _Models(everything)
    paths: dict[str, dict[str, Any]] = {}
    for operation in everything:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, models)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hookfuse", "version": version, "description": _DESCRIPTION},
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": models.schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "An API key (hf…_…)."}},
        },
        "security": [{"key": []}],
    }


_DESCRIPTION = "Webhook delivery with a circuit breaker for each endpoint."


async def send_message(call: Any, body: MessageIn, query: ContentQuery) -> MessageOut:
    """Send a message. The answer says that it is stored; it is delivered from then on."""
    raise NotImplementedError


SEND_MESSAGE = Operation(
    "POST",
    f"{PREFIX}/app/{{app_id}}/msg",
    send_message,
    "Messages",
    Needs.WRITE,
    202,
    (),
    MessageIn,
    ContentQuery,
    MessageOut,
    finds_app=True,
    audited=False,
    errors=(409,),
)


class _Models:
    """The schemas of all models, by readable names."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        kinds = [kind for each in operations for kind in (each.body, each.answer, each.query) if kind is not None]
        kinds += [problems.ProblemOut, problems.InvalidOut]
        unique = list(dict.fromkeys(kinds))
        refs, schemas = msgspec.json.schema_components(unique, ref_template=_REF)
        renamed = msgspec.json.decode(_readable(msgspec.json.encode(schemas).decode()))
        self._refs = dict(zip(unique, msgspec.json.decode(_readable(msgspec.json.encode(refs).decode())), strict=True))
        self._all = renamed
        queries = {name for each in operations if each.query for name in [each.query.__name__]}
        self.schemas = {name: schema for name, schema in renamed.items() if name not in queries}

    def ref(self, kind: Any) -> Any:
        return self._refs[kind]

    def needs_something(self, kind: Any) -> bool:
        """Whether an empty object would not do."""
        return bool(self._schema(kind).get("required") or self.ref(kind).get("anyOf"))

    def query(self, kind: Any) -> list[dict[str, Any]]:
        schema = self._schema(kind)
        required = schema.get("required", ())
        return [_parameter(name, each, name in required) for name, each in schema["properties"].items()]

    def _schema(self, kind: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._all[self.ref(kind)["$ref"].rpartition("/")[2]]
        return found


def _readable(text: str) -> str:
    return _GENERIC.sub(r"ListResponse\1", text)


def _parameter(name: str, schema: dict[str, Any], required: bool) -> dict[str, Any]:
    # A parameter that is not there has no value; there is no null in a query.
    options = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    default = schema.get("default")
    plain = dict(options[0]) if len(options) == 1 else {key: value for key, value in schema.items() if key != "default"}
    if default is not None:
        plain["default"] = default
    found = {"name": name, "in": "query", "required": required, "schema": plain}
    if plain.get("type") == "array":
        found |= {"style": "form", "explode": False}
    return found


def _operation(operation: Operation, models: _Models) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.group],
        "parameters": [*map(_path_parameter, operation.parameters), *_query(operation, models), *_headers(operation)],
        "responses": _responses(operation, models),
    }
    if operation.needs is Needs.NOTHING:
        found["security"] = []
    if operation.body is not None:
        content = {_JSON: {"schema": models.ref(operation.body)}}
        found["requestBody"] = {"required": models.needs_something(operation.body), "content": content}
    return found


def _query(operation: Operation, models: _Models) -> list[dict[str, Any]]:
    return [] if operation.query is None else models.query(operation.query)


def _headers(operation: Operation) -> list[dict[str, Any]]:
    if operation is not SEND_MESSAGE:
        return []
    schema = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[!-~]([ -~]*[!-~])?$"}
    return [{"name": "idempotency-key", "in": "header", "required": False, "schema": schema}]


def _path_parameter(name: str) -> dict[str, Any]:
    schema = {"type": "string", "minLength": 1}
    return {"name": name, "in": "path", "required": True, "description": _IDS[name], "schema": schema}


def _responses(operation: Operation, models: _Models) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for status in (operation.status, *operation.also):
        found[str(status)] = {"description": HTTPStatus(status).phrase}
        if operation.answer is not None:
            found[str(status)]["content"] = {_JSON: {"schema": models.ref(operation.answer)}}
    for status in _error_statuses(operation):
        schema = models.ref(problems.documented(status))
        found[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {problems.CONTENT_TYPE: {"schema": schema}},
        }
    return dict(sorted(found.items()))


def _error_statuses(operation: Operation) -> list[int]:
    found = {422, 500, 503, *operation.errors}
    if operation.needs is not Needs.NOTHING:
        found |= {401, 403, 429}
    if operation.parameters:
        found.add(404)
    if operation.body is not None:
        found.add(413)
    return sorted(found)
