"""Which Redis key holds what.

    hookfuse:v1:{7}:b:<key>     a breaker of shard 7, as a hash
    hookfuse:v1:{7}:seq         the newest generation of the shard
    hookfuse:v1:{7}:index       its breakers that are not plainly closed: key -> what a mirror needs to know
    hookfuse:v1:{7}:stream      its transitions, bounded
    hookfuse:v1:{7}:fence       the highest fence of those who sampled it
    hookfuse:v1:{7}:bell        not a key: the channel that rings when the stream grows, on a cluster
    hookfuse:v1:meta            how many shards there are, and which life of the data this is

The shard number is the hash tag, so all keys of a shard lie on one node of a Redis Cluster and a script may touch
many of its breakers at once.
"""

from __future__ import annotations

from zlib import crc32


class Keys:
    """The names of one prefix and number of shards."""

    def __init__(self, prefix: str, shards: int) -> None:
        self.shards = shards
        self.meta = f"{prefix}:v1:meta"
        self._bases = [f"{prefix}:v1:{{{shard}}}:" for shard in range(shards)]

    def shard(self, key: str) -> int:
        return crc32(key.encode()) % self.shards

    def head(self, shard: int) -> list[str]:
        """The first three keys of every script."""
        base = self._bases[shard]
        return [f"{base}seq", f"{base}stream", f"{base}index"]

    def breaker(self, shard: int, key: str) -> str:
        return f"{self._bases[shard]}b:{key}"

    def stream(self, shard: int) -> str:
        return f"{self._bases[shard]}stream"

    def index(self, shard: int) -> str:
        return f"{self._bases[shard]}index"

    def fence(self, shard: int) -> str:
        return f"{self._bases[shard]}fence"

    def bell(self, shard: int) -> str:
        return f"{self._bases[shard]}bell"
