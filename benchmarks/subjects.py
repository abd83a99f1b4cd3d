"""One way to use one library, in the shape that every benchmark can call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from hookfuse.testing import ManualClock

Work: TypeAlias = Callable[[], object]
AsyncWork: TypeAlias = Callable[[], Awaitable[object]]
W = TypeVar("W")

OURS = "hookfuse"
NEVER = 1_000_000
"""A threshold that no benchmark reaches."""

_PATIENCE = 100


class Down(Exception):
    """What a dead target raises."""


class Form(StrEnum):
    DECORATED = "decorated function"
    BLOCK = "context manager"


@dataclass(frozen=True)
class Settings:
    """The same for every library; the defaults are what most of them have as their own."""

    threshold: int = 5
    cool_off: float = 30.0
    clock: ManualClock | None = None
    """For ours only: the others read the machine's clock."""


@dataclass(frozen=True)
class Subject(Generic[W]):
    """`guard(work, settings)` makes a new breaker, and returns `work` guarded by it."""

    library: str
    form: Form
    guard: Callable[[W, Settings], W]
    refusal: type[Exception]


def trip(guarded: Work, refusal: type[Exception]) -> None:
    """Call a guarded failure until it is refused."""
    for _ in range(_PATIENCE):
        try:
            guarded()
        except refusal:
            return
        except Down:
            pass
    raise AssertionError(f"{guarded} never opened.")


async def trip_async(guarded: AsyncWork, refusal: type[Exception]) -> None:
    for _ in range(_PATIENCE):
        try:
            await guarded()
        except refusal:
            return
        except Down:
            pass
    raise AssertionError(f"{guarded} never opened.")
