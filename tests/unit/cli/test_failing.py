"""Errors are one sentence on stderr, with an exit code and without a password; and the small questions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hookfuse
from hookfuse.cli.commands import app
from tests.servers.redis import Server
from tests.unit.cli.conftest import Run

COMMANDS = [["list"], ["show", "ep"], ["disable", "ep"], ["watch"]]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_nowhere(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    """Without --redis and HOOKFUSE_REDIS_URL it says what to do."""
    monkeypatch.delenv("HOOKFUSE_REDIS_URL", raising=False)
    result = CliRunner().invoke(app, ["breakers", *command])
    assert result.exit_code == 2
    assert "--redis redis://host:6379/0 or in HOOKFUSE_REDIS_URL" in result.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_unreachable(command: list[str]) -> None:
    """A Redis that cannot be reached is told as such; nothing is called closed because of it."""
    result = CliRunner().invoke(app, ["breakers", *command, "--redis", "redis://:secret@127.0.0.1:1/0"])
    assert result.exit_code == 1
    assert result.stdout == ""
    assert result.stderr.startswith("Error: Redis is not available")
    assert result.stderr.count("\n") == 1
    assert "secret" not in result.output


@pytest.mark.parametrize(
    "url",
    [
        "http://:secret@host",
        "redis://:sec/secret@host",
        "redis://user:12/secret@host",
        "redis://user:12?secret@host",
        "redis://user:12#secret@host",
        "redis://:secret@host:port",
        "redis://:secret@[::1",
        "redis://:secret@127.0.0.1:1?db=x",
        "redis://127.0.0.1:1?password=secret&nonsense=1",
        "secret",
    ],
)
def test_unreadable_url(url: str) -> None:
    """A URL that cannot be used is not repeated: it may hold a password."""
    result = CliRunner().invoke(app, ["breakers", "list", "--redis", url])
    assert result.exit_code in (1, 2)
    assert result.stderr.startswith("Error: ")
    assert "secret" not in result.output


def test_wrong_password() -> None:
    """A wrong password is told as such, and never shown."""
    server = Server("redis", "--requirepass", "right")
    server.start()
    try:
        for url in (server.url, server.url.replace("unix://", "unix://:hidden@")):
            result = CliRunner().invoke(app, ["breakers", "list", "--redis", url])
            assert result.exit_code == 1
            assert "refused the user or password" in result.stderr
            assert "hidden" not in result.output
    finally:
        server.remove()


def test_unusable_key(run: Run) -> None:
    """A key that cannot be one is refused before anything is asked."""
    for command in ("show", "disable"):
        result = run(command, "", "--shards", "8")
        assert result.exit_code == 2
        assert "non-empty string" in result.stderr


def test_version_and_help() -> None:
    """The version is told, and help names every command."""
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("hookfuse ")
    assert "Begin with: hookfuse serve" in CliRunner().invoke(app, ["--help"]).stdout
    shown = CliRunner().invoke(app, ["breakers", "--help"]).stdout
    for name in ["list", "show", "watch", "force-open", "force-closed", "unforce", "disable", "enable", "reset"]:
        assert name in shown


def test_base_install() -> None:
    """Without the extras one sentence says how to get them."""
    root = str(Path(hookfuse.__file__).parents[1])
    code = f"import sys; sys.path.append({root!r}); from hookfuse.cli import main; main()"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr == 'The command line needs its extras: pip install "hookfuse[cli,redis]"\n'


def test_as_a_module(redis_url: str) -> None:
    """`python -m hookfuse` is the command line, and prints what a narrow encoding cannot show as its number."""
    for words, shown in (
        (["show", "ü→"], "\\xfc\\u2192 is closed; nothing is known of it.\n"),
        (["list"], "No worker"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "hookfuse", "breakers", *words, "--redis", redis_url],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        )
        assert done.stdout.startswith(shown)
