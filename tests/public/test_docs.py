"""The documentation is true: its examples run, its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    """Every relative link of a page leads to a file, and every anchor to a heading."""
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        linked = (page.parent / name) if name else page
        assert linked.exists(), target
        if not anchor:
            continue
        headings = re.findall(r"^#+ (.+)$", linked.read_text(), re.MULTILINE)
        assert not anchor or anchor in [heading.lower().replace(" ", "-") for heading in headings], target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks(page: Path) -> None:
    """The Python blocks of a page run one after the other; those of the README are at least valid Python."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    scope: dict[str, object] = {"__name__": page.stem}
    for block in blocks:
        code = compile(block, str(page), "exec")
        if page.name != "README.md":
            exec(code, scope)


def test_guarantees_are_shown() -> None:
    """Every test that a guarantee names is there."""
    text = (ROOT / "docs" / "guarantees.md").read_text()
    folders = [ROOT / name for name in re.findall(r"`(tests/[\w/]+)`", text)]
    files = re.findall(r"`(?:tests/[\w/]+/)?(test_\w+\.py)`", text)
    assert folders
    assert files
    assert [folder for folder in folders if not folder.is_dir()] == []
    assert [name for name in files if not list((ROOT / "tests").rglob(name))] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "testing.md"], ids=lambda page: page.name)
def test_settings_exist(page: Path) -> None:
    """Every setting that a page names is one."""
    known = {row.split("`")[1] for row in _rows(ROOT / "docs" / "configuration.md") if row.startswith("| `HOOKFUSE_")}
    outside = {"HOOKFUSE_CONFIG", "HOOKFUSE_URL", "HOOKFUSE_API_KEY"}
    assert set(re.findall(r"HOOKFUSE_[A-Z_]+[A-Z]", page.read_text())) <= known | outside


def _rows(page: Path) -> list[str]:
    return page.read_text().splitlines()


def test_example_runs() -> None:
    """The example that `make example` shows tells its whole story."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "first_breaker.py")], capture_output=True, text=True, check=True
    )
    assert "closed -> open" in done.stdout
    assert "half_open -> closed" in done.stdout
    assert done.stdout.rstrip().endswith("sent")
