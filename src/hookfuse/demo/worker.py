"""`python -m hookfuse.demo.worker`: one worker process of the demo. It ends with its input."""

from __future__ import annotations

import asyncio
import json
import sys

import uvloop

from hookfuse.app.logs import set_up_logs
from hookfuse.app.service import Part, Service
from hookfuse.config import load
from hookfuse.core.state import Transition

READY = "ready"
HEARD = "heard"


def main() -> None:
    settings = load().settings
    set_up_logs(settings)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        service = Service(settings, Part.WORKER, None, lambda started: _say(READY), changed=_say_heard)
        runner.run(_work(service))


async def _work(service: Service) -> None:
    watching = asyncio.create_task(_stop_with_input(service))
    try:
        await service.run()
    finally:
        watching.cancel()


async def _stop_with_input(service: Service) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await reader.read()
    service.stop()


def _say_heard(made: Transition) -> None:
    """The log of a fleet tells each transition once; the demo asks whether every process knows of it."""
    _say(HEARD, key=made.key, generation=made.generation, after=made.after)


def _say(event: str, **more: object) -> None:
    sys.stderr.write(json.dumps({"event": event, "level": "info", **more}) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
