"""The command line for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from hookfuse.cli.commands import app

RUNNING = {("serve",), ("api",), ("worker",)}
"""What they say to programs is their log, which HOOKFUSE_LOG_FORMAT makes JSON."""


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, found in group.commands.items():
        if hasattr(found, "commands"):
            yield from commands(found, (*path, name))
        else:
            yield (*path, name), found


def test_json_everywhere() -> None:
    """Every command that shows something shows it as JSON, too."""
    without = {
        path for path, found in commands(get_command(app)) if not any("--json" in each.opts for each in found.params)
    }
    assert without == RUNNING


def test_every_option_is_explained() -> None:
    """Every command and every option says what it is for."""
    for path, found in commands(get_command(app)):
        assert found.help, path
        assert all(each.help or each.hidden or each.param_type_name == "argument" for each in found.params), path


@pytest.mark.parametrize(
    ("typed", "code", "exit_code"),
    [
        (["healthcheck"], "unreachable", 1),
        (["app", "list"], "invalid_input", 2),
        (["breakers", "list", "--redis", "redis://127.0.0.1:1/0"], "unavailable", 1),
        (["breakers", "list", "--state", "closed"], "wrong_use", 2),
        (["app", "show"], "wrong_use", 2),
        (["app", "show", "demo", "--nonsense"], "wrong_use", 2),
        (["nonsense"], "wrong_use", 2),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_errors(monkeypatch: pytest.MonkeyPatch, typed: list[str], code: str, exit_code: int) -> None:
    """With --json an error is one JSON object on stderr, and the exit code is the one that people get."""
    monkeypatch.setenv("HOOKFUSE_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("HOOKFUSE_API_KEY", raising=False)
    told = CliRunner().invoke(app, [*typed, "--json"])
    assert told.stdout == ""
    (line,) = told.stderr.splitlines()
    error = json.loads(line)["error"]
    assert error.keys() == {"code", "detail"}
    assert error["code"] == code
    assert error["detail"]
    plain = CliRunner().invoke(app, typed)
    assert told.exit_code == plain.exit_code == exit_code
    assert '{"error"' not in plain.stderr
