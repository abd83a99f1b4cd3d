"""What a sampler puts to a store of breakers, and what it is told."""

from __future__ import annotations

from typing import NamedTuple

from hookfuse.core.policy import Policy
from hookfuse.core.state import Snapshot, Transition
from hookfuse.core.window import Counts


class Sample(NamedTuple):
    """What was counted of one breaker, in its window and since its last transition."""

    key: str
    policy: Policy
    tally: Counts
    generation: int
    """The breaker's when it was counted; one that has changed since is not judged by it."""


class Judgement(NamedTuple):
    """What became of samples that were judged together."""

    transitions: tuple[Transition, ...] = ()
    generation: int = 0
    """The newest that the store knows."""
    replaced: bool = False
    """Whether a newer fence was known somewhere, so that nothing was changed there."""


class Glance(NamedTuple):
    """Breakers as they are, and what time it is where they are."""

    now: float
    breakers: tuple[Snapshot, ...]
