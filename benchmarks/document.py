"""Puts what was measured into docs/benchmarks.md, between the markers of each benchmark."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"


def write(name: str, text: str) -> None:
    begin, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->"
    page = PAGE.read_text(encoding="utf-8")
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"{PAGE} has no place for {name}: it needs the lines {begin.strip()} and {end}.")
    PAGE.write_text(f"{before}{begin}```text\n{text}\n```\n{end}{after}", encoding="utf-8")
