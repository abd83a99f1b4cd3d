"""What several clients did to one breaker at the same time: who asked what when, and what the answer was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from hookfuse.core.outcome import Outcome


@dataclass(frozen=True)
class Admit:
    """`name` is what later calls of the same client say instead of the implementation's token and generation."""

    name: str


@dataclass(frozen=True)
class Record:
    name: str
    outcome: Outcome


@dataclass(frozen=True)
class Release:
    name: str


@dataclass(frozen=True)
class Inspect:
    pass


@dataclass(frozen=True)
class Advance:
    """Time passes on the server."""

    ms: int


Call: TypeAlias = Admit | Record | Release | Inspect | Advance


class Operation(NamedTuple):
    """One call of one client. `invoked` and `returned` are places in one order of all such moments."""

    client: int
    call: Call
    result: object
    invoked: int
    returned: int

    def __str__(self) -> str:
        return f"{self.invoked:3}-{self.returned:<3} client {self.client}: {self.call} -> {self.result}"


History: TypeAlias = tuple[Operation, ...]


def told(operations: Iterable[Operation]) -> str:
    return "\n".join(f"  {operation}" for operation in operations)


def overlapping(history: History) -> int:
    """How many operations had another one of the history beside them."""
    return sum(
        any(one.invoked < other.returned and other.invoked < one.returned for other in history if other is not one)
        for one in history
    )
