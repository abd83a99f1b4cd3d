"""The command line for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

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
