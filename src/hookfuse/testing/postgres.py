"""A Postgres store whose server has a clock that you turn by hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from hookfuse.stores.postgres import PostgresStore
from hookfuse.testing.clock import ManualClock

_SWAP = """
CREATE TABLE IF NOT EXISTS hookfuse.turned_clock (now_ms bigint NOT NULL);
DELETE FROM hookfuse.turned_clock;
INSERT INTO hookfuse.turned_clock VALUES (0);
CREATE OR REPLACE FUNCTION hookfuse.now_ms() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE
AS $$ SELECT now_ms FROM hookfuse.turned_clock $$;
"""


class ServerClock(ManualClock):
    """Unix seconds in the database, moved by hand.

    A clock is turned without `await`, also from within the store's own event loop: a thread of its own waits for it.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hookfuse-clock", daemon=True)
        self._thread.start()
        self._connection: Any = self._wait(asyncpg.connect(url))
        self._wait(self._connection.execute(_SWAP))
        self.advance(0)

    def advance(self, seconds: float) -> None:  # type: ignore[override]
        super().advance(seconds)
        now_ms = round(self.now() * 1000)
        self._wait(self._connection.execute("UPDATE hookfuse.turned_clock SET now_ms = $1", now_ms))

    def close(self) -> None:
        self._wait(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@asynccontextmanager
async def store_with_clock(url: str, **settings: Any) -> AsyncIterator[tuple[PostgresStore, ServerClock]]:
    """An open store on `url` and the clock that it decides by."""
    store = PostgresStore(url, **settings)
    await store.open()
    clock = ServerClock(url)
    try:
        yield store, clock
    finally:
        await store.close()
        clock.close()
