"""The breakers that are not plainly closed: a table, or cards where the terminal is too narrow for one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from hookfuse.cli.speaking import inert, words
from hookfuse.cli.times import ago
from hookfuse.cli.words import WORST_FIRST, Condition, condition, outlook, pill, since, times, why
from hookfuse.core.state import Snapshot

_HEAD = ("KEY", "STATE", "WHY", "SINCE", "NEXT", "FAILED", "TRIPS")
_GAP = 2
_LEAST_WHY = 22
_MOST_KEY = 36
_INDENT = max(len(each) for each in Condition) + 4


class Row(NamedTuple):
    key: str
    state: Condition
    why: str
    since: str
    next: str
    failed: str
    trips: str


def worst_first(found: Sequence[Snapshot]) -> list[Snapshot]:
    """By condition, then the longest in it, then by key."""
    return sorted(found, key=lambda seen: (WORST_FIRST[condition(seen)], since(seen) or 0.0, seen.key))


def print_list(console: Console, found: Sequence[Snapshot], now: float) -> None:
    rows = [_row(seen, now) for seen in found]
    if not console.is_terminal:
        for line in _plain(rows):
            console.print(line, soft_wrap=True)
        return
    console.print(_table(rows, console.width) or _cards(found, now))
    console.print()
    console.print(Text(_summary(found), "dim"))


def _row(seen: Snapshot, now: float) -> Row:
    counts, began = seen.counts, since(seen)
    return Row(
        inert(seen.key),
        condition(seen),
        inert(why(seen)) or "-",
        "-" if began is None else ago(began, now),
        outlook(seen, now) or "-",
        f"{counts.failed}/{counts.calls} {seen.failure_rate:.0%}" if counts.calls else "-",
        str(seen.trips) if seen.trips else "-",
    )


def _plain(rows: Sequence[Row]) -> list[str]:
    """For pipes: one line for each breaker, aligned, never cut or wrapped."""
    widths = _widths(rows)
    return [
        "".join(cell + " " * (width - cell_len(cell) + _GAP) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (_HEAD, *rows)
    ]


def _widths(rows: Sequence[Row]) -> list[int]:
    return [max(cell_len(cell) for cell in column) for column in zip(_HEAD, *rows, strict=True)]


def _table(rows: Sequence[Row], width: int) -> Table | None:
    """Keys and reasons may wrap, the rest may not. None: there is no room for a table."""
    key, state, why_, *rest = _widths(rows)
    key = min(key, _MOST_KEY)
    room = width - key - (state + 2) - sum(rest) - _GAP * (len(_HEAD) - 1)
    if room < min(why_, _LEAST_WHY):
        return None
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for name, size in zip(_HEAD, (key, state + 2, min(why_, room), *rest), strict=True):
        right = name in ("FAILED", "TRIPS")
        head = f" {name}" if name == "STATE" else name  # above the letters of the pills
        table.add_column(head, width=size, overflow="fold", justify="right" if right else "left")
    for row in rows:
        table.add_row(Text(row.key, "bold"), pill(row.state), *(Text(cell) for cell in row[2:]))
    return table


def _cards(found: Sequence[Snapshot], now: float) -> RenderableType:
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(width=_INDENT - _GAP)
    grid.add_column(overflow="fold")
    for seen in found:
        lines = [words(seen.key, "bold"), words(why(seen)), Text(_facts(seen, now), "dim")]
        grid.add_row(pill(condition(seen)), Text("\n").join(line for line in lines if line))
    return grid


def _facts(seen: Snapshot, now: float) -> str:
    counts, began = seen.counts, since(seen)
    facts = [
        "" if began is None else f"since {ago(began, now)}" if now - began >= 0.5 else "since just now",
        outlook(seen, now),
        f"{counts.failed} of {counts.calls} failed ({seen.failure_rate:.0%})" if counts.calls else "",
        times(seen.trips, "trip") if seen.trips else "",
    ]
    return " · ".join(fact for fact in facts if fact)


def _summary(found: Sequence[Snapshot]) -> str:
    numbers = Counter(condition(seen) for seen in found)
    parts = ", ".join(f"{numbers[each]} {each}" for each in Condition if numbers[each])
    return f"{times(len(found), 'breaker')}: {parts}." if len(numbers) > 1 else f"{parts}."
