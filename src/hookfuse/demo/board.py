"""How the six receivers are right now: a small table below the lines, on a terminal."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.live import Live
from rich.table import Table
from rich.text import Text

from hookfuse.core.state import Snapshot, State
from hookfuse.demo.receivers import CAST
from hookfuse.demo.story import Stage

_EVERY = 0.5
# Wide enough from the beginning, so that nothing moves when numbers grow.
_NAME_WIDTH, _STATE_WIDTH, _COUNT_WIDTH = 9, 11, 14
_COLOURS = {State.CLOSED: "green", State.OPEN: "red", State.HALF_OPEN: "yellow", State.DISABLED: "magenta"}


@dataclass(frozen=True, slots=True)
class Row:
    """One receiver."""

    name: str
    breaker: Snapshot
    arrived: int
    """Requests that it answered with 2xx."""
    waiting: int
    """Deliveries that are not at their end."""


@asynccontextmanager
async def board(live: Live, stage: Stage) -> AsyncIterator[None]:
    """Keep the table up to date while the block runs."""
    showing = asyncio.create_task(_keep_showing(live, stage), name="demo-board")
    try:
        with live:
            yield
    finally:
        showing.cancel()
        await asyncio.gather(showing, return_exceptions=True)


async def _keep_showing(live: Live, stage: Stage) -> None:
    while True:
        live.update(table([await _row(stage, name) for name in CAST], time.time()), refresh=True)
        await asyncio.sleep(_EVERY)


async def _row(stage: Stage, name: str) -> Row:
    answers = stage.receivers.counts(name).answers
    return Row(
        name,
        await stage.watch.inspect(stage.key(name)),
        sum(number for status, number in answers.items() if 200 <= status < 300),
        await stage.watch.waiting(stage.producer.app_id, stage.producer.endpoint_ids[name]),
    )


def table(rows: Sequence[Row], now: float) -> Table:
    grid = Table.grid(padding=(0, 2), pad_edge=True)
    for width in (_NAME_WIDTH, _STATE_WIDTH):
        grid.add_column(min_width=width)
    for width in (_COUNT_WIDTH, _COUNT_WIDTH):
        grid.add_column(min_width=width, justify="right")
    grid.add_column()
    grid.add_row()
    for row in rows:
        state = row.breaker.state
        grid.add_row(
            Text(row.name, "bold"),
            Text.assemble(("● ", _COLOURS[state]), state.value),
            Text(f"{row.arrived:,} arrived"),
            Text(f"{row.waiting:,} waiting", "" if row.waiting else "dim"),
            Text(_outlook(row.breaker, now), "dim"),
        )
    return grid


def _outlook(seen: Snapshot, now: float) -> str:
    if seen.throttled_until is not None:
        return "asked to wait"
    if seen.state is State.HALF_OPEN:
        return "probing"
    if seen.state is State.OPEN and seen.probe_at is not None:
        return f"probe in {max(0.0, seen.probe_at - now):.0f} s"
    return f"{seen.share:.0%} of the flow" if seen.share < 1 else ""
