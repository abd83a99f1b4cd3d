"""A worker process: python -m benchmarks.delivery.worker DATABASE REDIS KEY_FILE; ends on SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from benchmarks.delivery.world import Place, run
from hookfuse.app.process import prepare_process
from hookfuse.app.station import Station


async def main() -> None:
    prepare_process()
    database, redis_url, key_file = sys.argv[1:]
    place = Place("worker", database, redis_url or None, Path(key_file))
    async with Station(place.settings()) as station:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, station.worker.stop)
        await station.worker.run()


if __name__ == "__main__":
    run(main())
