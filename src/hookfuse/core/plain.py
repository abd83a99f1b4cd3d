"""Stored values as plain data, checked by the names of their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from hookfuse.errors import InvalidInput, InvalidPolicy, shown


def given_fields(kind: type, data: object) -> dict[str, Any]:
    """The fields that `data` gives for a dataclass; a name that it does not have is refused."""
    known = [each.name for each in fields(kind) if each.init]
    if not isinstance(data, Mapping):
        raise InvalidInput(f"A {kind.__name__} is an object with the fields {', '.join(known)}, got {shown(data)}.")
    for name in data:
        if name not in known:
            raise InvalidPolicy(str(name), f"be one of {', '.join(known)}", data[name])
    return dict(data)
