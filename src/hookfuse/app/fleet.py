"""Breakers that many processes share, for operators' tools.

`Fleet` is what operators' tools work with. Unlike a worker's breakers it answers from the store or raises: nobody is
told "closed" because Redis was away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from hookfuse.breakers import Breakers
from hookfuse.core.policy import Policy
from hookfuse.core.state import Snapshot
from hookfuse.core.window import BUCKETS, FOREVER_MS
from hookfuse.errors import InvalidInput, StoreError
from hookfuse.stores.redis import RedisStore
from hookfuse.stores.redis.connect import translated
from hookfuse.stores.redis.keys import Keys

# A person would rather wait for a far server than hear that it is away.
_DEADLINE = 3.0
_SCHEMES = ("redis", "rediss", "unix")


class NothingStored(StoreError):
    """No worker has used this prefix yet, so nothing says how its keys are spread over shards."""


class Pulse(NamedTuple):
    """What time it is for the store, and which life of its data this is: another one means that data was lost."""

    now: float
    life: bytes | None


class Fleet:
    """The breakers that many processes share through Redis."""

    def __init__(self, url: str, *, prefix: str = "hookfuse", shards: int | None = None) -> None:
        self.place = describe(url)
        self.prefix = prefix
        self._client = _connect(url)
        try:
            self.shards = self._agree_on_shards(shards)
            store = RedisStore(url, prefix=prefix, shards=self.shards, deadline=_DEADLINE)
            self._keys = Keys(prefix, self.shards)
            self._policies: dict[str, Policy] = {}
            self.breakers = Breakers(store, policy_for=self._policy_of, outage="deny", consistency="strict")
        except BaseException:
            self._client.close()
            raise

    def pulse(self) -> Pulse:
        with translated("asking for the time"):
            seconds, micros = self._client.time()
            life: Any = self._client.hget(self._keys.meta, "life")
        return Pulse(seconds + micros / 1e6, life)

    def unhealthy(self) -> Iterator[Snapshot]:
        """Every breaker that is not plainly closed."""
        self._read_policies()
        return self.breakers.unhealthy()

    def follow(self) -> None:
        """Wait until everything that happened so far has been told to the observers."""
        self.breakers.catch_up()

    def close(self) -> None:
        try:
            self.breakers.close()
        finally:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agree_on_shards(self, told: int | None) -> int:
        with translated("reading the number of shards"):
            stored: Any = self._client.hget(f"{self.prefix}:v1:meta", "shards")
        if stored is None and told is None:
            # Guessing would write the guess down, and workers with another number would refuse to start.
            raise NothingStored(
                f"No worker has stored breakers under the prefix {self.prefix!r} in {self.place} yet; if the place is "
                "right, say how many shards the workers use, as in --shards 64."
            )
        if stored is None:
            return told or 0
        if told is not None and told != int(stored):
            raise InvalidInput(
                f"The breakers under the prefix {self.prefix!r} are in {int(stored)} shards, not {told}; "
                "without --shards the stored number is used."
            )
        return int(stored)

    # Workers bring their policies with each call and the store keeps none of them. What a reader needs of one is
    # stored with the breaker: the width of its buckets, and its ramp.

    def _policy_of(self, key: str) -> Policy:
        if key in self._policies:
            return self._policies[key]
        shard = self._keys.shard(key)
        with translated("reading a breaker"):
            pipe = self._client.pipeline(transaction=False)
            pipe.hget(self._keys.breaker(shard, key), "width_ms")
            pipe.hget(self._keys.index(shard), key)
            width, entry = pipe.execute()
        return _read_policy(width, entry)

    def _read_policies(self) -> None:
        """Those of all breakers of the indexes, in two round trips however many they are."""
        keys = self._keys
        with translated("listing breakers"):
            pipe = self._client.pipeline(transaction=False)
            for shard in range(self.shards):
                pipe.hgetall(keys.index(shard))
            entries = {name: entry for index in pipe.execute() for name, entry in index.items()}
            for name in entries:
                key = name.decode()
                pipe.hget(keys.breaker(keys.shard(key), key), "width_ms")
            widths = pipe.execute()
        self._policies = {
            name.decode(): _read_policy(width, entry)
            for (name, entry), width in zip(entries.items(), widths, strict=True)
        }


def _read_policy(width: bytes | None, entry: bytes | None) -> Policy:
    width_ms = int(width or 0)
    ramp_ms = int(json.loads(entry)["ramp_ms"]) if entry else 0
    window = Policy().window
    if width_ms >= FOREVER_MS:
        window = None
    elif width_ms > 0:
        window = width_ms * BUCKETS / 1000
    return Policy(window=window, ramp=ramp_ms / 1000)


def describe(url: str) -> str:
    """A Redis URL without its secrets. One that cannot be read is refused without being repeated."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "localhost", parts.port
    except ValueError:
        raise InvalidInput(_UNREADABLE) from None
    if parts.scheme not in _SCHEMES:
        raise InvalidInput("A Redis URL begins with redis://, rediss:// or unix://.")
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        # A password with a bare slash, question mark or hash: its rest would be taken for something to show.
        raise InvalidInput(_UNREADABLE)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}:{port or 6379}{parts.path.rstrip('/')}"


_UNREADABLE = (
    "The Redis URL cannot be read; it looks like redis://user:password@host:6379/0, with special characters of the "
    "password percent-encoded and only options that redis-py knows."
)


def _connect(url: str) -> redis.Redis:
    try:
        client = redis.Redis.from_url(
            url, socket_timeout=_DEADLINE, socket_connect_timeout=_DEADLINE, retry=Retry(NoBackoff(), 0)
        )
        # Options that the driver does not know come to light when a connection is made, before it connects.
        client.connection_pool.make_connection()
    except (ValueError, TypeError):
        raise InvalidInput(_UNREADABLE) from None
    return client
