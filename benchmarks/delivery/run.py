"""All parts, on both stores."""

from __future__ import annotations

from benchmarks.delivery import accepting, day, flow, hanging, parked
from benchmarks.delivery.world import places
from benchmarks.report import Bar, Report

_NOTES = f"""\
{flow.MESSAGES:,} messages of 1 KB to {flow.ENDPOINTS} endpoints; the middle of {flow.ROUNDS} rounds, each compared
with the aiohttp of its own round; accepts too are the middle of {accepting.ROUNDS} rounds. Commits are synced, but
for claims. Sink, database, Redis, producers and workers share this machine's cores, and aiohttp has them for itself and
the sink.
{flow.CALLERS} callers hand in messages, each after the answer to the one before; aiohttp has {flow.IN_FLIGHT} requests
in flight, with which it is fastest. The bars go by aiohttp as it comes, on asyncio; ours runs on uvloop, so aiohttp on
uvloop is beside it.
Half hanging, a deadline of 2 s: a steady load of {hanging.RATE:,} messages a second for {hanging.SECONDS} s, and the
full load of above; the middle of {hanging.ROUNDS} and {hanging.FULL_ROUNDS} rounds, each with half of them hanging
beside the same with all well. The healthy half has a sink of its own, which writes down each arrival."""


def main() -> Report:
    tables: list[str] = []
    bars: list[Bar] = []
    with places() as known:
        found, its = flow.measure(known)
        tables += found
        bars += its
        for part in (hanging, parked, accepting):
            text, its = part.measure(known)
            tables.append(text)
            bars += its
    text, its = day.measure()
    return Report([*tables, text], _NOTES, [*bars, *its])
