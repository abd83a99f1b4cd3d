"""A Redis store whose server has a clock that you turn by hand."""

from __future__ import annotations

import redis
from redis.cluster import ClusterNode

from hookfuse.stores.redis import RedisStore
from hookfuse.stores.redis.target import Cluster, read_target
from hookfuse.testing.clock import ManualClock

# The time is in a key of the script's own slot: that of its shard, or that of the key beside the shards.
_NOW = """
local function clock_ms()
  local base = string.match(KEYS[1], '^.-:v1:{.-}:')
  return tonumber(redis.call('GET', base and base .. 'now' or '{' .. KEYS[1] .. '}:now'))
end
"""


class ServerClock(ManualClock):
    """Unix seconds on the server, moved by hand."""

    def __init__(self, client: redis.Redis | redis.RedisCluster, prefix: str, shards: int = 1) -> None:
        super().__init__()
        self._client = client
        self._keys = [f"{{{prefix}:v1:meta}}:now", *(f"{prefix}:v1:{{{shard}}}:now" for shard in range(shards))]
        self.advance(0)

    def advance(self, seconds: float) -> None:  # type: ignore[override]
        super().advance(seconds)
        times = dict.fromkeys(self._keys, round(self.now() * 1000))
        if isinstance(self._client, redis.RedisCluster):
            self._client.mset_nonatomic(times)
        else:
            self._client.mset(times)

    def close(self) -> None:
        self._client.close()


def store_with_clock(
    url: str, *, prefix: str = "test", shards: int = 4, swapped: dict[str, str] | None = None
) -> tuple[RedisStore, ServerClock]:
    """A store on `url` and the clock that it decides by; `swapped` replaces further includes of its scripts."""
    clock = ServerClock(connect(url), prefix, shards)
    includes = tuple({"now": _NOW, **(swapped or {})}.items())
    store = RedisStore(url, prefix=prefix, shards=shards, deadline=2.0, _includes=includes, _server_clock=clock.now)
    return store, clock


def connect(url: str) -> redis.Redis | redis.RedisCluster:
    """A client of the server or cluster behind a URL that a store takes."""
    target = read_target(url)
    if isinstance(target, Cluster):
        seeds = [ClusterNode(*node) for node in target.seeds]  # type: ignore[no-untyped-call]
        return redis.RedisCluster(startup_nodes=seeds, ssl=target.connection == "SSLConnection", **target.given)
    return redis.Redis.from_url(url)
