"""Two days in virtual time, and samples of a big fleet in real time."""

from __future__ import annotations

from benchmarks.report import Report
from benchmarks.sampling import cost, outages, zombies

_NOTES = """\
The days run the real sampler, breakers, retry schedule and tallies on a clock that is turned by hand; only the queue
and the endpoints are played. The cost is the CPU time of this process, Postgres and Redis together."""


def main() -> Report:
    parts = [zombies.measure(), outages.measure(), cost.measure()]
    return Report([text for text, _ in parts], _NOTES, [bar for _, bars in parts for bar in bars])
