"""Long random histories: dull, but many in little time. When one goes wrong it is shortened, step by step."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import TypeVar

from tests.unit.properties.strategies import IN_CI, TIMES

T = TypeVar("T")


def seeds(count: int) -> Iterable[int]:
    """In CI always the same; elsewhere new ones each time."""
    first = 0 if IN_CI else random.SystemRandom().randrange(1 << 32)
    return range(first, first + count * TIMES)


def hold(seed: int, scene: object, steps: list[T], walk: Callable[[list[T]], Exception | None]) -> None:
    """Raise what went wrong on the way, after telling the shortest way to it."""
    if walk(steps) is None:
        return
    steps = _shortened(steps, walk)
    told = "\n".join(f"  {step}" for step in steps)
    print(f"Walk {seed}, shortened:\n  {scene}\n{told}")  # noqa: T201
    error = walk(steps)
    assert error is not None
    raise error


def _shortened(steps: list[T], walk: Callable[[list[T]], Exception | None]) -> list[T]:
    size = len(steps) // 2
    while size:
        for begin in range(len(steps) - size, -1, -1):
            fewer = steps[:begin] + steps[begin + size :]
            if walk(fewer) is not None:
                steps = fewer
        size //= 2
    return steps
