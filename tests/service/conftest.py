"""Where a program keeps its things, and endpoints that it delivers to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hookfuse.testing.receivers import ReceiversProcess
from tests.service.programs import environment


@pytest.fixture
def receivers() -> Iterator[ReceiversProcess]:
    with ReceiversProcess() as process:
        yield process


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path / "data")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"
