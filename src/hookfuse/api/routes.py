"""The table of operations: what can be asked, by whom, with what, and what is answered."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias, TypeVar, get_type_hints

Handler: TypeAlias = Callable[..., Awaitable[Any]]
H = TypeVar("H", bound=Handler)

PREFIX = "/api/v1"
_PARAMETER = re.compile(r"\{(\w+)\}")


class Needs(StrEnum):
    """What a key must be to ask for an operation."""

    NOTHING = "nothing"
    """No key at all."""
    ANY = "any"
    """Any key; of an application's own if the path names one."""
    WRITE = "write"
    """A key that may change things; of an application's own if the path names one."""
    OVERVIEW = "overview"
    """A key for all applications."""
    ADMIN = "admin"
    """An admin key."""


@dataclass(frozen=True, slots=True)
class Operation:
    method: str
    path: str
    handler: Handler
    group: str
    needs: Needs
    status: int
    also: tuple[int, ...]
    """Other statuses that it answers with when all went well."""
    body: Any
    query: Any
    answer: Any
    finds_app: bool
    """Whether the application in the path must be there; else the operation looks for it itself."""
    audited: bool
    errors: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def summary(self) -> str:
        return (inspect.getdoc(self.handler) or "").partition("\n")[0]

    @property
    def parameters(self) -> list[str]:
        return _PARAMETER.findall(self.path)


class Routes:
    """Operations on one kind of thing."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._operations: list[Operation] = []

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._operations)

    def get(self, path: str, *, needs: Needs = Needs.ANY, audited: bool = False, **more: Any) -> Callable[[H], H]:
        return self._add("GET", path, needs=needs, audited=audited, **more)

    def post(self, path: str, *, needs: Needs = Needs.WRITE, **more: Any) -> Callable[[H], H]:
        return self._add("POST", path, needs=needs, **more)

    def put(self, path: str, *, needs: Needs = Needs.WRITE, **more: Any) -> Callable[[H], H]:
        return self._add("PUT", path, needs=needs, **more)

    def patch(self, path: str, *, needs: Needs = Needs.WRITE, **more: Any) -> Callable[[H], H]:
        return self._add("PATCH", path, needs=needs, **more)

    def delete(self, path: str, *, needs: Needs = Needs.WRITE, status: int = 204, **more: Any) -> Callable[[H], H]:
        return self._add("DELETE", path, needs=needs, status=status, **more)

    def _add(
        self,
        method: str,
        path: str,
        *,
        needs: Needs,
        status: int = 200,
        also: tuple[int, ...] = (),
        finds_app: bool = True,
        audited: bool = True,
        errors: tuple[int, ...] = (),
    ) -> Callable[[H], H]:
        def enter(handler: H) -> H:
            hints = get_type_hints(handler, include_extras=True)
            answer = hints["return"]
            operation = Operation(
                method,
                PREFIX + path,
                handler,
                self._group,
                needs,
                status,
                also,
                hints.get("body"),
                hints.get("query"),
                None if answer is type(None) else answer,
                finds_app and "{app_id}" in path,
                audited,
                errors,
            )
            self._operations.append(operation)
            return handler

        return enter
