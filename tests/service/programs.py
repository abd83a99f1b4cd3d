"""The program itself, as a process: what it says, what it serves, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
READY_WITHIN = 30.0
ENDS_WITHIN = 30.0


def environment(data: Path, **settings: str) -> dict[str, str]:
    """Nothing of the tester's own settings; names as in `allowed_networks`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOOKFUSE_")}
    given = {"data_dir": str(data), "port": "0", "allowed_networks": "127.0.0.0/8", **settings}
    return {**kept, **{f"HOOKFUSE_{name.upper()}": value for name, value in given.items()}}


def hookfuse(*words: str, env: Mapping[str, str], timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    command = [sys.executable, "-m", "hookfuse", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=timeout, check=False)


class Program:
    """A running part of the service."""

    before: tuple[str, ...] = (sys.executable, "-m", "hookfuse")
    """What comes before the words."""

    def __init__(self, env: Mapping[str, str], *words: str, log: Path) -> None:
        self._log = log
        with log.open("ab") as stderr:
            self.process = subprocess.Popen(
                [*self.before, *words],
                cwd=ROOT,
                env=env,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )
        self.said: list[str] = []
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, text: str, seconds: float = READY_WITHIN) -> str:
        """The first line from now on that holds this text."""
        deadline = time.monotonic() + seconds
        while (line := self._next(deadline - time.monotonic())) is not None:
            if text in line:
                return line
        everything = "\n".join(self.said)
        raise AssertionError(f"It never said {text!r}. It said:\n{everything}\n{self.log}")

    def take_all(self) -> str:
        """Whatever it has said until it was silent for a moment."""
        while self._next(0.3) is not None:
            pass
        return "\n".join(self.said)

    def _next(self, seconds: float) -> str | None:
        try:
            line = self._lines.get(timeout=max(seconds, 0.001))
        except Empty:
            return None
        if line is not None:
            self.said.append(line)
        return line

    @property
    def log(self) -> str:
        return self._log.read_text()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Signal, and wait for its end; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(ENDS_WITHIN)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()


class Served(Program):
    """One that listens."""

    url: str
    port: int

    def wait_until_ready(self) -> None:
        line = self.wait_for(" is ready at http://")
        self.url = line.split(" is ready at ")[1].split(";")[0]
        self.port = int(self.url.rpartition(":")[2])

    def get(self, path: str) -> tuple[int, str]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def ready(self) -> tuple[int, dict[str, Any]]:
        status, text = self.get("/readyz")
        return status, json.loads(text)

    def stopping(self) -> bool:
        """Whether it was asked to stop: it says so, or takes no more connections."""
        try:
            return bool(self.ready()[1]["status"] == "stopping")
        except OSError:
            return True

    def metric(self, name: str) -> float:
        """The sample of this name and labels, as it is written."""
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith(f"{name} "):
                return float(line.rpartition(" ")[2])
        raise AssertionError(f"{name} is not there")


class Typed(Served):
    """One that was started from a terminal: Ctrl-C reaches all of its processes."""

    before = ("/bin/sh", "-c")

    def press_ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(ENDS_WITHIN)

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        super().end()


@contextmanager
def serving(env: Mapping[str, str], *words: str, log: Path) -> Iterator[Served]:
    with _until_its_end(Served(env, *(words or ("serve",)), log=log)) as program:
        yield program


@contextmanager
def delivering(env: Mapping[str, str], *, log: Path) -> Iterator[Program]:
    """A worker without an API."""
    worker = Program(env, "worker", log=log)
    try:
        worker.wait_for("Delivering")
        yield worker
    finally:
        worker.end()


@contextmanager
def typed(env: Mapping[str, str], command: str, *, log: Path) -> Iterator[Typed]:
    """A command that serves, as it is typed into a shell."""
    with _until_its_end(Typed(env, command, log=log)) as program:
        yield program


S = TypeVar("S", bound=Served)


@contextmanager
def _until_its_end(program: S) -> Iterator[S]:
    try:
        program.wait_until_ready()
        yield program
    finally:
        program.end()


def until(true: Callable[[], bool], seconds: float = 20.0, pause: float = 0.02) -> None:
    """Another process can only be polled."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(pause)
