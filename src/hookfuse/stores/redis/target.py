"""What a store is told about its Redis: a URL, or a client whose settings are taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

import redis
import redis.asyncio

from hookfuse.errors import InvalidInput, shown
from hookfuse.stores.redis.connect import Server
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.scripts import Includes

_SCHEMES = ("redis", "rediss", "unix")
_OURS = frozenset(
    {"retry", "retry_on_error", "retry_on_timeout", "socket_timeout", "socket_connect_timeout", "decode_responses"}
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that a session needs to begin."""

    keys: Keys
    deadline: float
    target: Server
    includes: Includes = ()
    server_clock: Callable[[], float] | None = None


def read_target(target: object) -> Server:
    if isinstance(target, str):
        if urlsplit(target).scheme not in _SCHEMES:
            # Without the URL itself: it may hold a password.
            raise InvalidInput("A Redis URL begins with redis://, rediss:// or unix://, and this one does not.")
        return Server(target)
    if isinstance(target, redis.Redis | redis.asyncio.Redis):
        pool = target.connection_pool
        kept = {name: value for name, value in pool.connection_kwargs.items() if name not in _OURS}
        return Server(None, kept, pool.connection_class.__name__)
    raise InvalidInput(
        f"RedisStore takes a URL such as redis://localhost:6379/0 or a redis client, got {shown(target)}."
    )
