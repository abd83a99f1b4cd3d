"""Lists of plain things: a table for people, one JSON object a line for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from hookfuse.cli.speaking import inert, say, say_json

_GAP = 2


def print_rows(found: Iterable[Mapping[str, Any]], columns: Mapping[str, str], *, as_json: bool, none: str) -> None:
    """`columns` names the fields to show, by their headings; `none` is said if there is nothing to show."""
    if as_json:
        for each in found:
            say_json(each)
        return
    rows = [[_cell(each.get(field)) for field in columns.values()] for each in found]
    if not rows:
        say(none)
        return
    for line in _aligned([list(columns), *rows]):
        say(line)


def print_thing(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Every field that has a value, one a line."""
    if as_json:
        say_json(found)
        return
    for line in _aligned([[name, _cell(value)] for name, value in found.items() if value not in (None, "", [], {})]):
        say(line)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    return [
        "".join(cell + " " * (width - cell_len(cell) + _GAP) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cell(value: Any) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return inert(", ".join(map(str, value))) or "-"
    return inert(str(value))
