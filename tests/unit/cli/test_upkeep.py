"""Commands that look after the data, on a folder of their own."""

from __future__ import annotations

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
