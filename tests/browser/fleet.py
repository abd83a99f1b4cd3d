"""A site of two processes on Postgres and Redis: an API with pages, and a worker beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hookfuse.core.member import Report
from hookfuse.stores.postgres import PostgresStore
from hookfuse.testing.receivers import ReceiversProcess
from tests.browser.site import Site
from tests.servers import postgres
from tests.servers.redis import Server as RedisServer
from tests.service.programs import Program, delivering, environment, serving
from tests.service.seeds import silence


@dataclass(frozen=True, slots=True)
class Fleet:
    site: Site
    worker: Program
    redis: RedisServer
    database: str

    def kill(self) -> None:
        """Kill the worker, some time ago."""
        self.worker.process.kill()
        self.worker.process.wait()
        silence(self.database, self.worker.process.pid)

    def report(self, *said: Report) -> None:
        """Let other processes report once."""

        async def tell() -> None:
            store = PostgresStore(self.database)
            await store.open()
            for each in said:
                await store.report_in(each, age_ms=60_000)
            await store.close()

        # Playwright has the event loop of this thread.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, tell()).result()


@contextmanager
def running_fleet(folder: Path) -> Iterator[Fleet]:
    redis = RedisServer("redis")
    redis.start()
    try:
        with postgres.serving() as server, ReceiversProcess() as receivers:
            given = {"retry_delays": "0.1", "log_level": "warning", "database_url": server.url, "redis_url": redis.url}
            env = environment(folder / "data", **given)
            with serving(env, "api", log=folder / "api") as api, delivering(env, log=folder / "worker") as worker:
                admin = api.wait_for("hfadmin_").strip()
                yield Fleet(Site(api, admin, receivers, folder), worker, redis, server.url)
    finally:
        redis.remove()
