"""The floor: a bare aiohttp loop that posts to the sink, as anyone would write it.

    python bare.py LOOP COUNT IN_FLIGHT BYTES < urls

A program of its own: nothing of ours is in its memory, and nothing but the loop is chosen. It prints requests a second.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

import aiohttp
import uvloop

_HEADERS = {"content-type": "application/json"}


async def post(urls: Sequence[str], count: int, in_flight: int, body: bytes) -> float:
    numbers = iter(range(count))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one() -> None:
            for number in numbers:
                async with session.post(urls[number % len(urls)], data=body, headers=_HEADERS) as response:
                    await response.read()
                    assert response.status == 200

        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(in_flight)))
        return count / (time.perf_counter() - started)


def main() -> None:
    loop, count, in_flight, size = sys.argv[1:]
    run = {"asyncio": asyncio.run, "uvloop": uvloop.run}[loop]
    print(run(post(sys.stdin.read().split(), int(count), int(in_flight), b"x" * int(size))))


if __name__ == "__main__":
    main()
