"""Writes down what an operator said of a breaker, so that it survives the loss of Redis."""

from __future__ import annotations

from hookfuse.api.parts import Parts
from hookfuse.core.standing import Standing, standing_of
from hookfuse.core.state import Override


async def keep_standing(parts: Parts, key: str) -> None:
    """After the order itself: should this process die in between, whoever leads writes it."""
    seen = await parts.breakers.inspect(key)
    standing = standing_of(seen)
    if standing is not None:
        await parts.store.keep_standings([standing])
    else:
        await parts.store.keep_standings([], [Standing(key, Override.NONE, None, False, "", seen.generation)])
