"""What does a process cost Redis that knows many endpoints and calls none of them?"""

from __future__ import annotations

import asyncio

import redis

from benchmarks.report import Bar, progress, table
from benchmarks.shared.server import said
from hookfuse import AsyncBreakers
from hookfuse.stores.redis import RedisStore

KEYS = 100_000
SECONDS = 6.0
COMMANDS_PER_SECOND = 2.0

_CHUNK = 2_000


def measure(url: str) -> tuple[str, list[Bar]]:
    processed, sent = asyncio.run(_idle(url))
    row = [f"{KEYS:,} endpoints known, none called", f"{sent:.2f}", f"{processed:.2f}"]
    claim = f"an idle process with {KEYS:,} endpoints: at most {COMMANDS_PER_SECOND:g} Redis commands a second"
    bar = Bar(claim, f"{processed:.2f}", processed <= COMMANDS_PER_SECOND)
    return table(["commands a second", "sent", "with those in scripts"], [row]), [bar]


async def _idle(url: str) -> tuple[float, float]:
    """Commands a second that Redis processed, those that scripts call among them, and those that it was sent."""
    async with AsyncBreakers(RedisStore(url, prefix="idle", deadline=5.0)) as breakers:
        for first in range(0, KEYS, _CHUNK):
            progress("shared, endpoints", first + _CHUNK, KEYS)
            for number in range(first, first + _CHUNK):
                async with breakers.guard(f"ep_{number:021}"):
                    pass
            # Looking at one of them tells Redis of all that waits.
            await breakers.inspect(f"ep_{first:021}")
        await asyncio.sleep(0.5)
        with redis.Redis.from_url(url) as client:
            client.config_resetstat()
            await asyncio.sleep(SECONDS)
            processed = said(client, "stats")["total_commands_processed"] - 1
            sent = sum(
                cost["calls"]
                for name, cost in said(client, "commandstats").items()
                if name.startswith(("cmdstat_eval", "cmdstat_xread"))
            )
        return processed / SECONDS, sent / SECONDS
