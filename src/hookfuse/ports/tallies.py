"""What a sampler needs of a delivery store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from hookfuse.core.duty import Tenure
from hookfuse.core.tally import Guarded, Seen


class Tallies(Protocol):
    """Outcomes by endpoint and slot, written with every settlement. Ages are by the database's clock."""

    async def seen(self, back_ms: int, others: Mapping[str, int]) -> Sequence[Seen]:
        """What slots counted that began at most `back_ms` ago, of every endpoint that had traffic.

        Endpoints in `others` are looked at as far back as is said there. One query, whatever history there is.
        """
        ...

    async def seen_of(self, backs: Mapping[str, int]) -> Sequence[Seen]:
        """The same of these endpoints only."""
        ...

    async def guarded(self, endpoint_ids: Sequence[str]) -> Sequence[Guarded]:
        """The breakers and policies of those of these endpoints that exist."""
        ...

    async def guarded_by(self, key: str) -> Sequence[Guarded]:
        """The endpoints whose breaker has this key."""
        ...

    async def unguarded(self, keys: Sequence[str]) -> Sequence[str]:
        """Those of these keys that are named after an application of ours, and are no endpoint's."""
        ...

    async def stored_policies(self) -> Sequence[Mapping[str, Any]]:
        """Every policy that is stored for an endpoint, an application or all, each once."""
        ...

    async def prune_tallies(self, older_than_ms: int, *, tenure: Tenure | None = None) -> int:
        """Forget slots that began longer ago than this; returns how many rows there were."""
        ...
