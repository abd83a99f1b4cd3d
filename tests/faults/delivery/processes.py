"""Station processes as a test drives them: start, ask, stop, kill."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any, Self

from tests.faults.delivery.station import Orders

_STARTS_WITHIN = 30.0
_ROOT = Path(__file__).parents[3]


class StationProcess:
    """One process; `start` again after its end makes a new one with the same orders."""

    def __init__(self, orders: Orders, environment: Mapping[str, str] | None = None) -> None:
        self.orders = orders
        self._environment = environment or {}
        self._said = Path(orders.events).with_suffix(".txt")
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def start(self, *, stop_at: str = "") -> None:
        """Returns once it is ready, or has ended already."""
        self._spawn(stop_at)
        async with asyncio.timeout(_STARTS_WITHIN):
            while self.running and not self._ready():
                await asyncio.sleep(0.005)

    def _spawn(self, stop_at: str) -> None:
        if self.orders.socket is not None:
            Path(self.orders.socket).unlink(missing_ok=True)
        ours = {"HOOKFUSE_TEST_STOP": stop_at, "PYTHONPATH": os.pathsep.join(sys.path)}
        # A file and not a pipe, which would stop the process once it is full.
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.delivery.station", self.orders.text()],
                env={**os.environ, **ours, **self._environment},
                cwd=_ROOT,
                stdin=subprocess.PIPE,
                stderr=said,
            )

    def _ready(self) -> bool:
        return any(event["event"] == "ready" for event in self.events() if event["pid"] == self.pid)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def events(self) -> list[dict[str, Any]]:
        """What all processes that share this file have written."""
        path = Path(self.orders.events)
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def breakers(self) -> list[dict[str, Any]]:
        """What its breakers have come to."""
        before = len(self._told_breakers())
        self.signal(signal.SIGUSR1)
        async with asyncio.timeout(_STARTS_WITHIN):
            while len(told := self._told_breakers()) == before:
                await asyncio.sleep(0.005)
        breakers: list[dict[str, Any]] = told[-1]["breakers"]
        return breakers

    def _told_breakers(self) -> list[dict[str, Any]]:
        return [event for event in self.events() if event["event"] == "breakers"]

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self, within: float) -> int:
        """Wait for its end; returns the exit code."""
        process = self._process
        assert process is not None
        await asyncio.to_thread(process.wait, within)
        await self.kill()
        return process.returncode

    def said(self) -> str:
        """Its log."""
        return self._said.read_text() if self._said.exists() else ""

    async def kill(self) -> None:
        """As a power cut would."""
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.communicate)
        self._drop_client()

    def _drop_client(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    async def ask(self, key: str, payload: str) -> Mapping[str, Any]:
        """Hand in a message; raises ConnectionError if the process ends before it answers."""
        async with self._connecting:
            if self._client is None or self._client.broken:
                assert self.orders.socket is not None
                self._client = await Client.connect(self.orders.socket)
            client = self._client
        return await client.ask(key, payload)


class Client:
    """A connection to a station, for many questions at once."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.broken = False
        self._writer = writer
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read(reader))

    @classmethod
    async def connect(cls, path: str) -> Self:
        try:
            return cls(*await asyncio.open_unix_connection(path))
        except FileNotFoundError as error:
            raise ConnectionError("the station is not there") from error

    async def ask(self, key: str, payload: str) -> Mapping[str, Any]:
        if self.broken:
            raise ConnectionError("the station is gone")
        number = next(self._numbers)
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._writer.write(json.dumps({"n": number, "key": key, "payload": payload}).encode() + b"\n")
        return await answer

    def close(self) -> None:
        self._reading.cancel()
        self._break()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            async for line in reader:
                reply = json.loads(line)
                self._waiting.pop(reply["n"]).set_result(reply)
        self._break()

    def _break(self) -> None:
        self.broken = True
        self._writer.close()
        waiting, self._waiting = self._waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the station ended before it answered"))


async def freeze(process: StationProcess) -> None:
    """Stop it where it is, and return when it stands still."""
    process.signal(signal.SIGSTOP)
    while not frozen(process):
        await asyncio.sleep(0.001)


def frozen(process: StationProcess) -> bool:
    return _state(process.pid) in "Tt"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
