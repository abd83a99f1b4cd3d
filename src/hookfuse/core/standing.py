"""What of a breaker must survive the loss of its store: what an operator said, and that it is disabled."""

from __future__ import annotations

from typing import NamedTuple

from hookfuse.core.bounds import milliseconds
from hookfuse.core.state import Override, Snapshot, State


class Standing(NamedTuple):
    key: str
    override: Override
    until_ms: int | None
    """When the override ends by itself; None: when someone ends it."""
    disabled: bool
    reason: str
    generation: int
    """Of the breaker's last transition: of two standings the one with the higher is the newer."""


class Memory(NamedTuple):
    """What the database last saw of the breakers' store."""

    life: str = ""
    """Which life of its data; empty: none yet."""
    generation: int = 0
    """The newest."""


def standing_of(seen: Snapshot) -> Standing | None:
    """None: there is nothing to keep of it."""
    disabled = seen.state is State.DISABLED
    if seen.override is Override.NONE and not disabled:
        return None
    until_ms = None if seen.override_until is None else milliseconds(seen.override_until)
    return Standing(seen.key, seen.override, until_ms, disabled, seen.reason, seen.generation)
