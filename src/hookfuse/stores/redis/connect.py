"""How a store reaches Redis: a URL or a client becomes settings, settings become clients, errors become ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from hookfuse.errors import InvalidInput, StoreError, StoreUnavailable, shown
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.scripts import Includes

_SCHEMES = ("redis", "rediss", "unix")
_OURS = frozenset(
    {"retry", "retry_on_error", "retry_on_timeout", "socket_timeout", "socket_connect_timeout", "decode_responses"}
)


@dataclass(frozen=True)
class Settings:
    """Everything that a session needs to begin."""

    keys: Keys
    deadline: float
    url: str | None
    given: dict[str, Any]
    connection: str
    includes: Includes = ()
    server_clock: Callable[[], float] | None = None

    def client(self, *, wait: float = 0.0) -> redis.Redis:
        """A client of its own; `wait` is how long the server may keep a blocking read on top of the deadline."""
        options = {**self._options(wait), "retry": Retry(NoBackoff(), 0)}
        if self.url is not None:
            return redis.Redis.from_url(self.url, **options)
        kind = getattr(redis, self.connection)
        return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=kind, **self.given, **options))

    def async_client(self, *, wait: float | None = None) -> redis.asyncio.Redis:
        """As `client`; without `wait` its user sees to the deadline, as the driver would spend a task on each write."""
        options = {**self._options(wait), "retry": AsyncRetry(NoBackoff(), 0)}
        if self.url is not None:
            return redis.asyncio.Redis.from_url(self.url, **options)
        kind = getattr(redis.asyncio, self.connection)
        pool = redis.asyncio.ConnectionPool(connection_class=kind, **self.given, **options)
        return redis.asyncio.Redis(connection_pool=pool)

    def _options(self, wait: float | None) -> dict[str, Any]:
        return {
            "socket_timeout": None if wait is None else self.deadline + wait,
            "socket_connect_timeout": self.deadline,
            "decode_responses": False,
        }


def read_target(target: object) -> tuple[str | None, dict[str, Any], str]:
    """A URL, or the connection settings and class name of a client."""
    if isinstance(target, str):
        if urlsplit(target).scheme not in _SCHEMES:
            # Without the URL itself: it may hold a password.
            raise InvalidInput("A Redis URL begins with redis://, rediss:// or unix://, and this one does not.")
        return target, {}, "Connection"
    if isinstance(target, redis.Redis | redis.asyncio.Redis):
        pool = target.connection_pool
        kept = {name: value for name, value in pool.connection_kwargs.items() if name not in _OURS}
        return None, kept, pool.connection_class.__name__
    raise InvalidInput(
        f"RedisStore takes a URL such as redis://localhost:6379/0 or a redis client, got {shown(target)}."
    )


def unreadable(error: Exception) -> StoreError:
    """An answer that nobody expected is Redis's fault too, and handled as such."""
    return StoreError(f"Redis gave an answer that cannot be read: {type(error).__name__}: {_text(error)}.")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Driver errors become ours, with what was being done."""
    try:
        yield
    except (redis.exceptions.AuthenticationError, redis.exceptions.NoPermissionError) as error:
        raise StoreError(f"Redis refused the user or password while {doing}: {_text(error)}.") from error
    except (
        redis.exceptions.ConnectionError,
        redis.exceptions.TimeoutError,
        TimeoutError,
        OSError,
        redis.exceptions.BusyLoadingError,
        redis.exceptions.ReadOnlyError,
        redis.exceptions.OutOfMemoryError,
        redis.exceptions.ClusterDownError,
        redis.exceptions.MasterDownError,
    ) as error:
        raise StoreUnavailable(f"Redis is not available while {doing}: {_text(error)}.") from error
    except redis.exceptions.RedisError as error:
        raise StoreError(f"Redis could not be used while {doing}: {_text(error)}.") from error


def _text(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__
