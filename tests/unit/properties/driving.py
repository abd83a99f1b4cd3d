"""How to call a coroutine without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any


def now_or_never(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns that has nothing to wait for, as those of the memory store."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")
