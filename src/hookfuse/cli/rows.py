"""Lists of plain things: a table for people, one JSON object a line for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len

from hookfuse.cli.speaking import inert, say, say_json
from hookfuse.cli.times import read_instant, stamp

_GAP = 2
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", re.ASCII)


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
    for line in _aligned([[name, _cell(value)] for name, value in _flat(found) if value not in (None, "", [], {})]):
        say(line)


def print_done(name: str, done: str, *, as_json: bool) -> None:
    """That something was done of which nothing is left to show."""
    if as_json:
        say_json({"name": name, "done": done})
    else:
        say(f"{inert(name)} is {done}.")


def _flat(found: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What is within a field comes as lines of its own."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{each}", inner) for each, inner in _flat(value))
        elif isinstance(value, list) and any(isinstance(each, Mapping) for each in value):
            yield from ((f"{name}.{number}", each) for number, each in enumerate(value, 1))
        else:
            yield name, value


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
        return inert(", ".join(each if isinstance(each, str) else json.dumps(each) for each in value)) or "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{inert(name)} {_cell(inner)}" for name, inner in value.items()) or "-"
    if isinstance(value, float):
        return f"{value:.10g}"
    return stamp(read_instant(value)) if _INSTANT.fullmatch(str(value)) else inert(str(value))
