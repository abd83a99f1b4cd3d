"""Breakers shared by a whole fleet through Redis: `RedisStore("redis://…")`, or `"redis+cluster://…"`.

Every verb is one Lua script, so it is decided atomically on the server and by the server's clock. With the mirror (the
default) a process keeps what is *not* plainly closed in memory and follows the shards' streams, so that a healthy call
asks nobody: its success is counted a few milliseconds later, in one call for each shard. With
`consistency="strict"` every call asks.

What the mirror costs: another process's trip is known here some milliseconds after it has reached Redis, and never
later than two seconds, because a mirror that has heard nothing for so long stops answering. If a process is killed
(-9), the successes of its last flush interval (3 ms, at most 100 ms under load) are lost; failures are never buffered.
"""

from __future__ import annotations

from collections.abc import Callable

import redis
import redis.asyncio

from hookfuse.core import bounds
from hookfuse.errors import InvalidInput, shown
from hookfuse.ports import AsyncBreakerSession, BreakerSession, Consistency
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.scripts import Includes
from hookfuse.stores.redis.target import Settings, read_target
from hookfuse.stores.redis.threads import ThreadSession

__all__ = ["RedisStore"]


class RedisStore:
    """Breakers in Redis (7.0 or newer) or Valkey, one server or a cluster, for threads and for asyncio."""

    def __init__(
        self,
        target: str | redis.Redis | redis.asyncio.Redis | redis.RedisCluster | redis.asyncio.RedisCluster,
        *,
        prefix: str = "hookfuse",
        shards: int = 64,
        deadline: float = 0.1,
        _includes: Includes = (),
        _server_clock: Callable[[], float] | None = None,
    ) -> None:
        if not isinstance(prefix, str) or not prefix or set(prefix) & set("{} \n"):
            raise InvalidInput(f"prefix must be a word without braces and spaces, got {shown(prefix)}.")
        bounds.whole("shards", shards, 1, 1024)
        seconds = bounds.seconds("deadline", deadline, 0.001, 60)
        self._settings = Settings(Keys(prefix, shards), seconds, read_target(target), _includes, _server_clock)

    def session(self, consistency: Consistency = Consistency.MIRROR) -> BreakerSession:
        return ThreadSession(self._settings, strict=consistency is Consistency.STRICT)

    def async_session(self, consistency: Consistency = Consistency.MIRROR) -> AsyncBreakerSession:
        from hookfuse.stores.redis.tasks import TaskSession

        return TaskSession(self._settings, strict=consistency is Consistency.STRICT)
