"""How big an ordeal is: a short form for every run of the tests, a long one behind `make ordeal`."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Durations are seconds."""

    apis: int = 1
    workers: int = 2
    slots: int = 8
    endpoints: int = 4
    messages: int = 100
    deadline: float = 1.0
    """Of a request."""
    margin: float = 0.3
    lease: float = 1.6
    grace: float = 1.0
    kills: int = 2
    crowd: int = 120
    """Endpoints, where it takes many."""
    heap: int = 5_000
    """Deliveries, where it takes many."""
    locked: float = 6.0
    """How long a table stays locked."""
    patience: float = 60.0
    """In which everything comes to rest."""
    noise: float = 0.25
    """What a busy machine may add to a latency; still far from the deadline, which held-up messages would wait for."""
    steady: bool = False
    """Whether runs are long enough to compare their speeds on a machine that does other things too."""


SHORT = Sizes()
LONG = Sizes(
    apis=2,
    workers=3,
    slots=32,
    endpoints=40,
    messages=1_000,
    deadline=2.0,
    margin=1.0,
    lease=6.0,
    grace=5.0,
    kills=12,
    crowd=4_000,
    heap=1_000_000,
    locked=30.0,
    patience=900.0,
    noise=0.02,
    steady=True,
)


def chosen() -> Sizes:
    return LONG if os.environ.get("HOOKFUSE_ORDEAL") == "long" else SHORT


def seed() -> int:
    """What all draws of a test come from; given, it makes the same draws again."""
    given = os.environ.get("HOOKFUSE_SEED")
    return int(given) if given else random.randrange(1 << 32)
