"""What a benchmark found: tables, a word on how to read them, and the bars it was held to."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """A number that we promise."""

    claim: str
    measured: str
    met: bool

    def __str__(self) -> str:
        return f"{'pass' if self.met else 'FAIL'}  {self.claim}: {self.measured}"


@dataclass(frozen=True)
class Report:
    tables: list[str]
    notes: str
    bars: list[Bar]

    def __str__(self) -> str:
        return "\n\n".join([*self.tables, self.notes, "\n".join(map(str, self.bars))])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines with aligned columns: the first to the left, the others to the right."""
    lines = [head, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(_line(line, widths) for line in [head, ["-" * width for width in widths], *rows])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = zip(cells, widths, strict=True)
    return "   ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip()


def progress(what: str, done: int, of: int) -> None:
    """A line on stderr that rewrites itself, where someone watches."""
    if sys.stderr.isatty():
        print(f"\r{what}: {done}/{of}", end="\n" if done == of else "", file=sys.stderr, flush=True)


def say(what: str) -> None:
    if sys.stderr.isatty():
        print(what, file=sys.stderr, flush=True)
