"""How a session reaches Redis: the one seam between what is asked and where it is answered.

A link runs scripts, asks raw commands, and listens for what a follower waits for. A session knows nothing else of the
servers behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from hookfuse.stores.redis.cluster.tasks import AsyncClusterLink
from hookfuse.stores.redis.cluster.threads import ClusterLink
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.single import AsyncServerLink, ServerLink
from hookfuse.stores.redis.tail import Follower, Raw
from hookfuse.stores.redis.target import Cluster, Settings
from hookfuse.stores.redis.verbs import Verbs


class Link(Protocol):
    """For threads."""

    def run(self, call: Call) -> Any:
        """What the script returned."""
        ...

    def run_all(self, calls: Sequence[Call]) -> list[Any]:
        """What each call returned, or the `StoreError` that it alone had."""
        ...

    def ask(self, requests: Sequence[Raw]) -> list[Any]:
        """The replies to commands that are sent together."""
        ...

    def part(self, key: str) -> str:
        """The name of the server that has a key; of several, each may be lost by itself."""
        ...

    def follower(self, verbs: Verbs) -> Follower:
        """Follows the shards by way of `listen`."""
        ...

    def listen(self, step: Any) -> Any:
        """Do what a follower asks for; this may take as long as nothing happens."""
        ...

    def hang_up(self) -> None:
        """End a `listen` of another thread."""
        ...

    def close(self) -> None: ...


class AsyncLink(Protocol):
    """For asyncio; a listening task is cancelled."""

    async def run(self, call: Call) -> Any: ...

    async def run_all(self, calls: Sequence[Call]) -> list[Any]: ...

    async def ask(self, requests: Sequence[Raw]) -> list[Any]: ...

    def part(self, key: str) -> str: ...

    def follower(self, verbs: Verbs) -> Follower: ...

    async def listen(self, step: Any) -> Any: ...

    async def close(self) -> None: ...


def open_link(settings: Settings) -> Link:
    if isinstance(settings.target, Cluster):
        return ClusterLink(settings, settings.target)
    return ServerLink(settings, settings.target)


def open_async_link(settings: Settings) -> AsyncLink:
    if isinstance(settings.target, Cluster):
        return AsyncClusterLink(settings, settings.target)
    return AsyncServerLink(settings, settings.target)
