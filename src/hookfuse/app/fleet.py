"""Breakers that many processes share, for operators' tools.

`Fleet` is what operators' tools work with. Unlike a worker's breakers it answers from the store or raises: nobody is
told "closed" because Redis was away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple, Self
from urllib.parse import SplitResult, urlsplit

from hookfuse.breakers import Breakers
from hookfuse.core.policy import Policy
from hookfuse.core.state import Snapshot
from hookfuse.core.window import BUCKETS, FOREVER_MS
from hookfuse.errors import InvalidInput, StoreError
from hookfuse.stores.redis import RedisStore
from hookfuse.stores.redis.commands import Commands
from hookfuse.stores.redis.connect import Server
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.link import Link, open_link
from hookfuse.stores.redis.target import ANY_SCHEME, SCHEMES, Cluster, Settings, each_host, read_target

# A person would rather wait for a far server than hear that it is away.
_DEADLINE = 3.0


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
        self._link = _connect(url, prefix)
        try:
            self.shards = self._agree_on_shards(shards)
            store = RedisStore(url, prefix=prefix, shards=self.shards, deadline=_DEADLINE)
            self._keys = Keys(prefix, self.shards)
            self._policies: dict[str, Policy] = {}
            self.breakers = Breakers(store, policy_for=self._policy_of, outage="deny", consistency="strict")
        except BaseException:
            self._link.close()
            raise

    def pulse(self) -> Pulse:
        now_ms, life = self._link.run(Commands(self._keys).pulse())
        return Pulse(int(now_ms) / 1000, life or None)

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
            self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agree_on_shards(self, told: int | None) -> int:
        (stored,) = self._link.ask([("HGET", Keys(self.prefix, 1).meta, "shards")])
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
        width, entry = self._link.ask(
            [("HGET", self._keys.breaker(shard, key), "width_ms"), ("HGET", self._keys.index(shard), key)]
        )
        return _read_policy(width, entry)

    def _read_policies(self) -> None:
        """Those of all breakers of the indexes, in two round trips however many they are."""
        keys = self._keys
        indexes = self._link.ask([("HGETALL", keys.index(shard)) for shard in range(self.shards)])
        entries = {name.decode(): entry for index in indexes for name, entry in index.items()}
        widths = self._link.ask([("HGET", keys.breaker(keys.shard(key), key), "width_ms") for key in entries])
        self._policies = {
            key: _read_policy(width, entry) for (key, entry), width in zip(entries.items(), widths, strict=True)
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
        hosts = ",".join(_describe_host(urlsplit(each)) for each in each_host(url))
    except ValueError:
        raise InvalidInput(_UNREADABLE) from None
    if parts.scheme not in SCHEMES:
        raise InvalidInput(f"A Redis URL begins with {ANY_SCHEME}.")
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        # A password with a bare slash, question mark or hash: its rest would be taken for something to show.
        raise InvalidInput(_UNREADABLE)
    if parts.scheme == "unix":
        return f"unix://{parts.path}"
    return f"{parts.scheme}://{hosts}{parts.path.rstrip('/')}"


def _describe_host(parts: SplitResult) -> str:
    host = parts.hostname or "localhost"
    host = f"[{host}]" if ":" in host else host
    return f"{host}:{parts.port or 6379}"


_UNREADABLE = (
    "The Redis URL cannot be read; it looks like redis://user:password@host:6379/0, with special characters of the "
    "password percent-encoded and only options that redis-py knows."
)


def check_url(url: str) -> Server | Cluster:
    """What a URL names; one that the driver would refuse is refused without being repeated."""
    try:
        target = read_target(url)
        server = target.server(target.seeds[0]) if isinstance(target, Cluster) else target
        # Options that the driver does not know come to light when a connection is made, before it connects.
        server.client(_DEADLINE).connection_pool.make_connection()
    except (ValueError, TypeError):
        raise InvalidInput(_UNREADABLE) from None
    return target


def _connect(url: str, prefix: str) -> Link:
    # Only what is beside the shards is asked of it before their number is known.
    return open_link(Settings(Keys(prefix, 1), _DEADLINE, check_url(url)))
