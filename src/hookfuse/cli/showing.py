"""One breaker, with everything that is known of it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hookfuse.cli.speaking import inert, words
from hookfuse.cli.times import ago, ahead, stamp
from hookfuse.cli.words import condition, in_words, outlook, pill, since, times, tinted, why
from hookfuse.core.outcome import Failure
from hookfuse.core.state import Override, Snapshot, State


def is_known(seen: Snapshot) -> bool:
    return bool(seen.generation or any(seen.totals) or seen.streak or seen.throttled_until)


def unknown(key: str) -> Text:
    return Text.assemble(words(key, "bold"), " is closed; nothing is known of it.")


def print_breaker(console: Console, seen: Snapshot, now: float) -> None:
    mark = pill if console.is_terminal else tinted
    console.print(Text.assemble(words(seen.key, "bold"), "  ", mark(condition(seen))), soft_wrap=True)
    console.print()
    _print_grid(console, [(name, inert(fact)) for name, fact in _facts(seen, now)])
    if seen.failures:
        console.print()
        console.print(Text("Last failures", "bold"))
        _print_grid(console, [(_when(failure.at, now), _failure(failure)) for failure in reversed(seen.failures)])


def _print_grid(console: Console, rows: Sequence[tuple[str, str]]) -> None:
    """Names and texts side by side; wrapped in a terminal, one line each elsewhere."""
    width = max(len(name) for name, _ in rows)
    if not console.is_terminal:
        for name, text in rows:
            console.print(f"  {name:<{width}}  {text}", soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(Text(name, "dim"), Text(text))
    console.print(Padding(grid, (0, 0, 0, 2)))


def _facts(seen: Snapshot, now: float) -> list[tuple[str, str]]:
    facts = [
        ("Why", why(seen)),
        ("State", seen.state.value),
        ("Since", _when(since(seen), now)),
        ("Override", _override(seen, now)),
        ("Opened", "" if seen.state in (State.CLOSED, State.OPEN) else _when(seen.opened_at, now)),
        ("Next", outlook(seen, now)),
        ("Probes", _probes(seen)),
        ("In a row", f"{times(seen.streak, 'failure')}, {times(seen.trips, 'trip')}"),
        ("Window", _window(seen)),
        ("Lifetime", f"{seen.totals.failed:,} failed, {seen.totals.ok:,} ok{_slow(seen.totals.slow)}"),
        ("Generation", str(seen.generation) if seen.generation else ""),
    ]
    return [(name, fact) for name, fact in facts if fact]


def _when(at: float | None, now: float) -> str:
    return "" if at is None else f"{stamp(at)}, {ago(at, now)}"


def _override(seen: Snapshot, now: float) -> str:
    if seen.override is Override.NONE:
        return "none"
    until = seen.override_until
    ends = "until someone ends it" if until is None else f"until {stamp(until)}, {ahead(until, now)}"
    return f"{seen.override}, {ends}: {in_words(seen.why)}"


def _probes(seen: Snapshot) -> str:
    if seen.state is not State.HALF_OPEN:
        return ""
    return f"{seen.probes_in_flight} in flight, {seen.probe_successes} succeeded"


def _window(seen: Snapshot) -> str:
    counts = seen.counts
    if not counts.calls:
        return "no calls"
    mean = seen.mean_latency
    latency = "" if mean is None else f", mean latency {mean * 1000:,.0f} ms"
    share = f" ({seen.failure_rate:.0%})"
    return f"{counts.failed:,} of {times(counts.calls, 'call')} failed{share}{_slow(counts.slow)}{latency}"


def _slow(number: int) -> str:
    return f", {number:,} slow" if number else ""


def _failure(failure: Failure) -> str:
    return inert(f"{failure.type}: {failure.message}" if failure.message else failure.type)
