"""`watch`, as a process of its own."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hookfuse import Breakers
from hookfuse.stores.redis import RedisStore
from tests.servers.redis import Server
from tests.unit.cli.conftest import Workers, fail

_WITHIN = 20.0


class Screen:
    """What a watching process has written so far."""

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self.process = process
        self._output = output
        self._text = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def text(self) -> str:
        return self._text.decode()

    def wait_for(self, words: str) -> str:
        """The line with these words."""
        return next(line for line in self._wait(lambda: words in self._complete()) if words in line)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(timeout=_WITHIN)
        self._reader.join(timeout=_WITHIN)
        return code

    def _wait(self, true: Callable[[], bool]) -> list[str]:
        deadline = time.monotonic() + _WITHIN
        while not true():
            assert time.monotonic() < deadline, f"not written in time; so far: {self.text!r}"
            time.sleep(0.01)
        return self._complete().splitlines()

    def _complete(self) -> str:
        return self.text.rpartition("\n")[0]

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._output, 65536)
            except OSError:
                return
            if not some:
                return
            self._text += some


@contextmanager
def watching(url: str, *options: str, terminal: bool = False) -> Iterator[Screen]:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    command = [sys.executable, "-m", "hookfuse", "breakers", "watch", "--redis", url, *options]
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"}
    process = subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    screen = Screen(process, ours)
    try:
        yield screen
    finally:
        process.kill()
        process.wait()
        screen._reader.join(timeout=_WITHIN)
        os.close(ours)


def test_transitions_as_they_happen(redis_url: str, workers: Workers) -> None:
    """Each transition is a line with its time, key, states, reason and actor; Ctrl-C ends it cleanly."""
    worker = workers()
    worker.admit("ep")
    with watching(redis_url) as screen:
        assert "prefix hookfuse, 8 shards" in screen.wait_for("Watching")
        fail(worker, "ep")
        line = screen.wait_for("→ open")
        assert line.split()[1:5] == ["ep", "closed", "→", "open"]
        assert line.endswith("failures in a row: 5, limit 5")
        worker.force_open("ep\x1b[31m", reason="maintenance [bold]", actor="alice")
        line = screen.wait_for("forced_open")
        assert line.split()[1] == r"ep\x1b[31m"
        assert line.endswith("maintenance [bold] · by alice")
        assert screen.interrupt() == 0
        assert "\x1b" not in screen.text
        assert "Traceback" not in screen.text


def test_json(redis_url: str, workers: Workers) -> None:
    """--json is one object on each line."""
    worker = workers()
    worker.admit("ep")
    with watching(redis_url, "--json") as screen:
        screen.wait_for("Watching")
        made = worker.disable("ep", reason="gone", actor="alice")
        record = json.loads(screen.wait_for("{"))
        assert made is not None
        assert (record["key"], record["before"], record["after"]) == ("ep", "closed", "disabled")
        assert (record["actor"], record["generation"]) == ("alice", made.generation)


def test_in_a_terminal(redis_url: str, workers: Workers) -> None:
    """In a terminal it has colours, and keys still cannot steer it."""
    worker = workers()
    worker.admit("ep")
    with watching(redis_url, terminal=True) as screen:
        screen.wait_for("Watching")
        worker.disable("ep\x1b]0;pwned\x07")
        line = screen.wait_for("disabled")
        assert "\x1b[1" in line
        assert "\x1b]" not in screen.text
        assert "\x07" not in screen.text
        assert screen.interrupt() == 0


def test_survives_a_restart() -> None:
    """When Redis dies and comes back, empty, it says so and goes on."""
    server = Server("redis")
    server.start()
    try:
        with Breakers(RedisStore(server.url, shards=8), consistency="strict") as worker:
            worker.admit("ep")
            with watching(server.url) as screen:
                screen.wait_for("Watching")
                server.stop()
                screen.wait_for("Redis is not available")
                server.start()
                screen.wait_for("its data was lost")
                worker.disable("ep")
                screen.wait_for("→ disabled")
                assert screen.interrupt() == 0
    finally:
        server.remove()


def test_survives_a_pause() -> None:
    """When Redis hangs for a while it says so, and goes on."""
    server = Server("redis")
    server.start()
    try:
        with Breakers(RedisStore(server.url, shards=8), consistency="strict") as worker:
            worker.admit("ep")
            with watching(server.url) as screen:
                screen.wait_for("Watching")
                server.signal(signal.SIGSTOP)
                screen.wait_for("Redis is not available")
                server.signal(signal.SIGCONT)
                screen.wait_for("Redis is back")
                worker.disable("ep")
                screen.wait_for("→ disabled")
    finally:
        server.remove()
