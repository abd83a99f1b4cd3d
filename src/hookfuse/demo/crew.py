"""Worker processes beside the demo's own, which then only serves the API. Their logs tell what they saw."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Self

from hookfuse.config import variable
from hookfuse.config.settings import PREFIX
from hookfuse.core.state import State
from hookfuse.demo.worker import HEARD, READY
from hookfuse.errors import HookfuseError

_STARTS_WITHIN = 60.0
_ENDS_WITHIN = 15.0
_LONGEST_LINE = 1 << 20


class Member:
    """One worker process, as far as its log tells."""

    def __init__(self) -> None:
        self.ready = asyncio.Event()
        self.attempts: Counter[str] = Counter()
        """By endpoint."""
        self.opened: set[tuple[str, int]] = set()
        """Trips that it knows of: key and generation."""

    def read(self, line: Mapping[str, Any]) -> None:
        if line["event"] == READY:
            self.ready.set()
        elif line["event"] == "attempt":
            self.attempts[line["endpoint_id"]] += 1
        elif line["event"] == HEARD and line["after"] == State.OPEN:
            self.opened.add((line["key"], line["generation"]))


class Crew:
    """So many worker processes, for as long as the block lasts. They end with this process, however that ends."""

    def __init__(self, number: int, environ: Mapping[str, str], heard: Callable[[], None]) -> None:
        self._environ = _with(environ, {variable("log_level"): "info", variable("log_format"): "json"})
        self._heard = heard
        self._processes: list[asyncio.subprocess.Process] = []
        self._reading: list[asyncio.Task[None]] = []
        self.members = tuple(Member() for _ in range(number))

    async def __aenter__(self) -> Self:
        try:
            for member in self.members:
                await self._start(member)
            await self._all_ready()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    def know(self, key: str, generation: int) -> int:
        """How many of them know of this trip."""
        return sum((key, generation) in member.opened for member in self.members)

    async def _start(self, member: Member) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "hookfuse.demo.worker"),
            env=self._environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            limit=_LONGEST_LINE,
            start_new_session=True,  # Ctrl-C is for the one who started them
        )
        self._processes.append(process)
        self._reading.append(asyncio.create_task(self._read(process, member), name="demo-crew"))

    async def _all_ready(self) -> None:
        """All of them at work, or an error as soon as one has ended."""
        ready = asyncio.create_task(self._everyone())
        try:
            async with asyncio.timeout(_STARTS_WITHIN):
                await asyncio.wait([ready, *self._reading], return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise HookfuseError("The worker processes did not start in time.") from None
        finally:
            ready.cancel()
        if not all(member.ready.is_set() for member in self.members):
            raise HookfuseError("A worker process ended as soon as it had started; what it said is above.")

    async def _everyone(self) -> None:
        for member in self.members:
            await member.ready.wait()

    async def _read(self, process: asyncio.subprocess.Process, member: Member) -> None:
        assert process.stderr is not None
        async for raw in process.stderr:
            try:
                line = json.loads(raw)
                serious = line["level"] in ("error", "critical")
                member.read(line)
            except (ValueError, KeyError, TypeError):
                # No line of its log: a traceback, or what a library says.
                serious = True
            if serious:
                sys.stderr.write(raw.decode(errors="backslashreplace"))
            self._heard()

    async def _end(self) -> None:
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes:
            try:
                async with asyncio.timeout(_ENDS_WITHIN):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        await asyncio.gather(*self._reading)


def _with(*settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a worker: ours without its settings, and these."""
    found = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for each in settings:
        found |= each
    return found
