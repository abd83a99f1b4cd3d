"""A Redis store whose server has a clock that you turn by hand."""

from __future__ import annotations

import redis

from hookfuse.stores.redis import RedisStore
from hookfuse.testing.clock import ManualClock

# Each shard has the time in a key of its own, so that the scripts stay within their slot.
_NOW = """
local function clock_ms()
  return tonumber(redis.call('GET', string.match(KEYS[1], '^.-:v1:') .. 'now'))
end
"""


class ServerClock(ManualClock):
    """Unix seconds on the server, moved by hand."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        super().__init__()
        self._client = client
        self._key = f"{prefix}:v1:now"
        self.advance(0)

    def advance(self, seconds: float) -> None:  # type: ignore[override]
        super().advance(seconds)
        self._client.set(self._key, round(self.now() * 1000))

    def close(self) -> None:
        self._client.close()


def store_with_clock(
    url: str, *, prefix: str = "test", shards: int = 4, swapped: dict[str, str] | None = None
) -> tuple[RedisStore, ServerClock]:
    """A store on `url` and the clock that it decides by; `swapped` replaces further includes of its scripts."""
    clock = ServerClock(redis.Redis.from_url(url), prefix)
    includes = tuple({"now": _NOW, **(swapped or {})}.items())
    store = RedisStore(url, prefix=prefix, shards=shards, deadline=2.0, _includes=includes, _server_clock=clock.now)
    return store, clock
