"""Commands that look after the data, on a folder of their own."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hookfuse.cli.commands import app


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, which is not there yet."""
    monkeypatch.setenv("HOOKFUSE_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


@pytest.mark.parametrize("command", ["prune", "reseal"])
def test_no_database(data: Path, command: str) -> None:
    """Where there is no database, what looks after one makes none, and says how to name another folder."""
    refused = CliRunner().invoke(app, [command])
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"Error: There is no database hookfuse.db in {data}; ")
    assert "HOOKFUSE_DATA_DIR" in refused.stderr
    assert not data.exists()


def test_kept_for_ever(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where messages are kept for ever, `prune` forgets none unless it is told how old they must be."""
    monkeypatch.setenv("HOOKFUSE_RETENTION_DAYS", "0")
    assert CliRunner().invoke(app, ["migrate"]).exit_code == 0
    refused = CliRunner().invoke(app, ["prune"])
    assert refused.exit_code == 2
    assert "HOOKFUSE_RETENTION_DAYS is 0" in refused.stderr
    assert CliRunner().invoke(app, ["prune", "--days", "1"]).exit_code == 0


def test_piped(data: Path) -> None:
    """Without a terminal, what was done is all that is printed: nothing before it, and nothing of a bar."""
    assert CliRunner().invoke(app, ["migrate"]).exit_code == 0
    pruned = CliRunner().invoke(app, ["prune", "--days", "1"])
    assert (pruned.stdout, pruned.stderr) == ("messages  0\ndays      1\n", "")
    resealed = CliRunner().invoke(app, ["reseal"])
    assert (resealed.stdout, resealed.stderr) == ("endpoints  0\nresealed   0\n", "")


def test_on_a_terminal(data: Path) -> None:
    """On a terminal `prune` shows that it works, and leaves only what was done."""
    assert CliRunner().invoke(app, ["migrate"]).exit_code == 0
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "hookfuse", "prune", "--days", "1"]
    done = subprocess.run(
        command, env={**os.environ, "TERM": "xterm"}, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True
    )
    os.close(theirs)
    seen = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert done.stdout == "messages  0\ndays      1\n"
    assert "Forgetting" in seen
    # The bar's line is taken back, and the cursor shown again.
    assert seen.endswith("\x1b[2K")
    assert "\x1b[?25h" in seen
