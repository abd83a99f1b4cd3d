"""`hookfuse demo` before and after the end of its story: signals, kills, a terminal, and receivers changed by hand."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.service.programs import Program, hookfuse, until
from tests.service.test_demo_database import databases


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the demo makes its folder."""
    made = tmp_path / "passing"
    made.mkdir()
    return made


@contextmanager
def demo(env: dict[str, str], folder: Path, log: Path, *words: str) -> Iterator[Program]:
    program = Program({**env, "TMPDIR": str(folder)}, "demo", *words, log=log)
    try:
        yield program
    finally:
        program.end()


def descendants(pid: int) -> list[int]:
    try:
        children = [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return [each for child in children for each in (child, *descendants(child))]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ended_in_mid_story(env: dict[str, str], folder: Path, log: Path, number: int) -> None:
    """A signal in mid-story ends it in good order, with an exit code that says so, and leaves nothing behind."""
    with demo(env, folder, log, "--for", "20") as program:
        program.wait_for("phoenix dies", 60)
        processes = descendants(program.process.pid)
        assert program.stop(number) == 130
        assert "Nothing is left behind" in program.take_all()
    assert log.read_text() == ""
    assert list(folder.iterdir()) == []
    assert not any(map(alive, processes))


@pytest.mark.timeout(180)
def test_killed_in_mid_story(env: dict[str, str], folder: Path, log: Path, postgres_url: str, redis_url: str) -> None:
    """Killed, with three worker processes, it leaves neither processes nor files; its database goes with the next."""
    urls = ("--database-url", postgres_url, "--redis-url", redis_url)
    with demo(env, folder, log, "--workers", "3", *urls) as program:
        program.wait_for("Messages flow", 90)
        processes = descendants(program.process.pid)
        assert len(processes) >= 4
        assert program.stop(signal.SIGKILL) == -signal.SIGKILL
        until(lambda: not any(map(alive, processes)), seconds=60)
    until(lambda: list(folder.iterdir()) == [])
    (left,) = asyncio.run(databases(postgres_url))
    with demo(env, folder, log, *urls) as program:
        program.wait_for("Dashboard", 60)
        assert left not in asyncio.run(databases(postgres_url))
        program.stop()
    assert asyncio.run(databases(postgres_url)) == []


def test_ended_before_it_begins(env: dict[str, str], folder: Path, log: Path) -> None:
    """A signal as soon as there is a folder leaves nothing behind."""
    with demo(env, folder, log) as program:
        until(lambda: list(folder.iterdir()) != [])
        assert program.stop(signal.SIGTERM) == 130
    assert list(folder.iterdir()) == []


def test_port_is_taken(env: dict[str, str], folder: Path, log: Path) -> None:
    """A port that is taken is told with the option that chooses another."""
    with demo(env, folder, log) as program:
        port = program.wait_for("Dashboard").rstrip("/").rpartition(":")[2]
        refused = hookfuse("demo", "--port", port, env=env)
    assert refused.returncode == 2
    assert "choose another --port" in refused.stderr


class Terminal:
    """The demo on a terminal of its own; `screen` is all that was written to it."""

    def __init__(self, env: dict[str, str], *words: str) -> None:
        ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hookfuse", "demo", *words],
            env={**env, "TERM": "xterm", "COLUMNS": "120"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        self._file = ours
        self._written = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def screen(self) -> str:
        """Without the codes that colour it and move the cursor."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._written.decode(errors="replace"))

    def _read(self) -> None:
        try:
            while found := os.read(self._file, 65_536):
                self._written += found
        except OSError:
            # How a terminal says that nobody has its other end any more.
            return

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        os.close(self._file)


@pytest.fixture
def terminal(env: dict[str, str], folder: Path) -> Iterator[Terminal]:
    made = Terminal({**env, "TMPDIR": str(folder)}, "--for", "10")
    yield made
    made.close()


def post(port: int, name: str, behaviour: str) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        body = json.dumps({"name": name, "behaviour": behaviour})
        connection.request("POST", "/demo/receivers", body, {"content-type": "application/json"})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.timeout(180)
def test_goes_on_at_a_terminal(terminal: Terminal, folder: Path) -> None:
    """On a terminal it goes on after the story, tells what follows when a receiver is broken, and ends with 0."""
    until(lambda: "doomed requests avoided, 0 lost" in terminal.screen, seconds=120)
    until(lambda: "It goes on until Ctrl-C" in terminal.screen)
    found = re.search(r"http://127\.0\.0\.1:(\d+)/", terminal.screen)
    assert found is not None
    assert post(int(found[1]), "acme", "dead") == 200
    until(lambda: re.search(r"acme +closed → open", terminal.screen) is not None, seconds=60)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.process.wait(30) == 0
    assert list(folder.iterdir()) == []
