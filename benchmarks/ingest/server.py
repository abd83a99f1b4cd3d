"""Our API as a process of its own, as `hookfuse api` runs it. DATABASE KEY_FILE PORT [REDIS]

It prints an admin key when it takes requests, and ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import uvicorn

from benchmarks.delivery.world import Place, run
from hookfuse.api.keys import make_key
from hookfuse.app.process import prepare_process
from hookfuse.app.protocol import server_config
from hookfuse.app.station import Station
from hookfuse.app.web import WebSettings, make_app
from hookfuse.core.access import Role


async def main() -> None:
    database, key_file, port, *redis_url = sys.argv[1:]
    prepare_process()
    place = Place("api", database, redis_url[0] if redis_url else None, Path(key_file))
    async with Station(place.settings()) as station:
        _, key = await make_key(station.store, Role.ADMIN, "bench")
        app = make_app(station, settings=WebSettings())
        config = server_config(app, app.ingest)
        config.port = int(port)
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.handle_exit, signal.SIGTERM, None)
        print(key, flush=True)
        await serving


if __name__ == "__main__":
    run(main())
