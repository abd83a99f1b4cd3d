"""Behaviours as JSON: `{"kind": "slow", "seconds": 3}`, for receivers in a process of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

from hookfuse.errors import InvalidInput, shown
from hookfuse.testing.receivers import behaviours, hostile
from hookfuse.testing.receivers.behaviours import Behaviour

Json: TypeAlias = dict[str, Any]

_ALL: tuple[type[Any], ...] = (
    behaviours.Ok,
    behaviours.Slow,
    behaviours.Failing,
    behaviours.Gone,
    behaviours.Redirect,
    behaviours.Unavailable,
    behaviours.RateLimited,
    behaviours.Flaky,
    behaviours.Script,
    hostile.Dead,
    hostile.Hang,
    hostile.Reset,
    hostile.Malformed,
    hostile.DripHeaders,
    hostile.DripBody,
    hostile.Huge,
    hostile.Bomb,
    hostile.BigHeader,
)


def kind_of(behaviour: type[Any]) -> str:
    """The word for a behaviour: `drip_body` for DripBody."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", behaviour.__name__).lower()


KINDS = {kind_of(behaviour): behaviour for behaviour in _ALL}


@dataclass(frozen=True, slots=True)
class Order:
    """An endpoint to add, or to change."""

    behaviour: Behaviour
    secret: str | None = None
    """To verify signatures with; only for a new endpoint."""
    own_port: bool = False
    """Only for a new endpoint."""


def read_orders(text: str | bytes) -> dict[str, Order]:
    """Orders by the endpoints' names."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidInput(f"a spec is a JSON object of endpoints by name: {error}.") from error
    if not isinstance(found, dict):
        raise InvalidInput(f"a spec is a JSON object of endpoints by name, got {shown(found)}.")
    return {name: _order(entry) for name, entry in found.items()}


def _order(entry: object) -> Order:
    if not isinstance(entry, dict):
        raise InvalidInput(f"an endpoint is an object with a kind, got {shown(entry)}.")
    rest = dict(entry)
    secret, own_port = rest.pop("secret", None), rest.pop("own_port", False)
    return Order(read(rest), secret, bool(own_port))


def read(found: object) -> Behaviour:
    kind = found.get("kind") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(kind, str) or kind not in KINDS:
        raise InvalidInput(f"a behaviour has a kind out of {', '.join(KINDS)}; got {shown(found)}.")
    types = {field.name: field.type for field in fields(KINDS[kind])}
    values = {name: _value(types.get(name), value) for name, value in found.items() if name != "kind"}
    try:
        behaviour: Behaviour = KINDS[kind](**values)
    except TypeError as error:
        raise InvalidInput(f"{kind} takes {', '.join(types) or 'nothing'}; got {shown(found)}.") from error
    return behaviour


def _value(kind: object, value: object) -> object:
    if isinstance(value, dict):
        return read(value)
    if isinstance(value, list):
        return tuple(map(read, value))
    # The types are text, because annotations are not evaluated.
    if kind == "bytes" and isinstance(value, str):
        return value.encode("latin-1")
    return value


def write_orders(orders: Mapping[str, Order]) -> str:
    """One line that `read_orders` reads."""
    return json.dumps({name: _written(order) for name, order in orders.items()})


def _written(order: Order) -> Json:
    return {**write(order.behaviour), "secret": order.secret, "own_port": order.own_port}


def write(behaviour: Behaviour) -> Json:
    kind = type(behaviour)
    if kind_of(kind) not in KINDS:
        raise InvalidInput(f"only ready behaviours can be sent to another process, got {shown(behaviour)}.")
    found = {field.name: getattr(behaviour, field.name) for field in fields(KINDS[kind_of(kind)])}
    return {"kind": kind_of(kind), **{name: _plain(value) for name, value in found.items()}}


def _plain(value: Any) -> object:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, list | tuple):
        return [write(each) for each in value]
    return write(value) if hasattr(value, "begin") else value
