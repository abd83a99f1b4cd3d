"""What a sampler needs of a store of breakers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from hookfuse.core.policy import Policy
from hookfuse.core.sample import Glance, Judgement, Sample


class Sampling(Protocol):
    async def judge(self, samples: Sequence[Sample], *, fence: int, floor: int) -> Judgement:
        """Evaluate many breakers, atomically for those that are kept together.

        The highest fence is remembered, and an older one changes nothing. From now on generations are above `floor`.
        """
        ...

    async def glance(self, keys: Collection[str], policy_for: Callable[[str], Policy]) -> Glance:
        """Many breakers as they are; an unknown one is closed."""
        ...

    async def life(self) -> str:
        """Which life of the data this is: another one means that breakers were lost. Empty: they cannot be."""
        ...
