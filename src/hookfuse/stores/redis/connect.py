"""How a server is dialled: settings become clients, the driver's errors become ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from hookfuse.errors import StoreError, StoreUnavailable


@dataclass(frozen=True, slots=True)
class Server:
    """One server: its URL, or the connection settings and the class name of a client that was handed in."""

    url: str | None
    given: dict[str, Any] = field(default_factory=dict)
    connection: str = "Connection"

    def client(self, deadline: float, *, wait: float = 0.0) -> redis.Redis:
        """A client of its own; `wait` is how long the server may keep a read on top of the deadline."""
        options = {**_options(deadline, wait), "retry": Retry(NoBackoff(), 0)}
        if self.url is not None:
            return redis.Redis.from_url(self.url, **options)
        kind = getattr(redis, self.connection)
        return redis.Redis(connection_pool=redis.ConnectionPool(connection_class=kind, **self.given, **options))

    def async_client(self, deadline: float, *, wait: float | None = None) -> redis.asyncio.Redis:
        """As `client`; without `wait` its user sees to the deadline, as the driver would spend a task on each write."""
        options = {**_options(deadline, wait), "retry": AsyncRetry(NoBackoff(), 0)}
        if self.url is not None:
            return redis.asyncio.Redis.from_url(self.url, **options)
        kind = getattr(redis.asyncio, self.connection)
        pool = redis.asyncio.ConnectionPool(connection_class=kind, **self.given, **options)
        return redis.asyncio.Redis(connection_pool=pool)


def _options(deadline: float, wait: float | None) -> dict[str, Any]:
    return {
        "socket_timeout": None if wait is None else deadline + wait,
        "socket_connect_timeout": deadline,
        "decode_responses": False,
    }


async def hang_up(client: redis.asyncio.Redis) -> None:
    """Close its connections. A loop too busy to see them closed in time is no fault: they are on their way."""
    with suppress(redis.exceptions.TimeoutError):
        await client.connection_pool.disconnect()


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
    except redis.exceptions.MovedError as error:
        raise StoreError(
            f"This Redis is part of a cluster, found while {doing}; say so with redis+cluster:// in its URL."
        ) from error
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
