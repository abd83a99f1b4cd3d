"""What a view over all applications needs of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hookfuse.core.condition import Census, EndpointFilter, Listed
from hookfuse.core.paging import Span
from hookfuse.core.tally import Tally


class Overview(Protocol):
    async def sick_endpoints(self, chosen: EndpointFilter, names: Sequence[str]) -> Sequence[Listed]:
        """Those that are stopped, flagged or failing, or whose id or breaker key is one of `names`; by id."""
        ...

    async def other_endpoints(self, chosen: EndpointFilter, but: Sequence[str], span: Span) -> Sequence[Listed]:
        """A page of all but these ids, by id.

        They are those that `sick_endpoints` found, and not what would be sick by now: whoever changes between the two
        reads is in exactly one of them.
        """
        ...

    async def recent(self, endpoint_ids: Sequence[str], slots: int) -> Sequence[Tally]:
        """What the last so many slots counted of these endpoints, the running one included; empty ones are left out."""
        ...

    async def census(self) -> Census: ...
