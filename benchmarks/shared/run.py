"""Each part gets a new, empty server, so that none finds what another has left."""

from __future__ import annotations

import redis

from benchmarks.report import Bar, Report
from benchmarks.shared import delay, idle, scripts, size, throughput
from benchmarks.shared.server import running, said

_NOTES = f"""\
Redis {{version}} over TCP on this machine. Calls a second are the best of {throughput.ROUNDS} rounds; then how many
times as fast the mirror is; of the floor, which part of the bare calls is left. A round of ours ends when Redis has
its successes. Callers are tasks or threads, the work is empty, and every task lets the others go on after
{throughput.TURN} calls; for "inside at once" the work itself does so, and each call has a turn of the loop in it.
pybreaker is for threads only, purgatory's Redis works for asyncio only, aiobreaker's stops the loop while it waits.
interlock-cb shares only the state: each process counts for itself, so it has no bar. For these calls our deadline is
raised from 0.1 to 5 seconds, as the others wait for ever.
Microseconds of the server are those that Redis counts for EVALSHA, by the wall; a full window has ten buckets.
Commands a second: a script counts once as sent, and again for each command that it calls.
Bytes: its key is MEMORY USAGE; what the server grew by has the index and the stream in it."""


def main() -> Report:
    tables: list[str] = []
    bars: list[Bar] = []
    with running() as url:
        version = _version(url)
        faces, its = throughput.measure(url)
    tables += faces
    bars += its
    for part in (scripts, delay, idle, size):
        with running() as url:
            found, its = part.measure(url)
        tables.append(found)
        bars += its
    return Report(tables, _NOTES.format(version=version), bars)


def _version(url: str) -> str:
    with redis.Redis.from_url(url) as client:
        return str(said(client, "server")["redis_version"])
