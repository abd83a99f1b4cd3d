"""What a record costs the server: batches of 32 keys, pipelined, in microseconds that Redis itself counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

import redis

from benchmarks.report import Bar, table
from benchmarks.shared.server import said
from hookfuse import Outcome, Policy, Rate, Streak
from hookfuse.core.admission import Admission
from hookfuse.stores.redis.commands import Command, Commands
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.scripts import script
from hookfuse.testing.redis import ServerClock, store_with_clock

BATCH = 32
ROUNDS = 80
RECORDS_PER_SECOND = 40_000

_BATCHES = 4
_BUCKETS = 10
_NEVER = 1_000_000
_POLICY = Policy(trip=Streak(_NEVER) | Rate(0.5, min_calls=_NEVER))

Make = Callable[[Commands, str], Command]


def measure(url: str) -> tuple[str, list[Bar]]:
    rates: dict[str, float] = {}
    with redis.Redis.from_url(url) as client:
        for name, buckets, make in _SCENES:
            rates[name] = _rate(client, url, name, buckets, make)
    rows = [[name, f"{1e6 / rate:.1f}", f"{rate:,.0f}"] for name, rate in rates.items()]
    bars = [
        Bar(
            f"server, {name}: at least {RECORDS_PER_SECOND:,} records a second of one core",
            f"{rates[name]:,.0f}",
            rates[name] >= RECORDS_PER_SECOND,
        )
        for name in _BARRED
    ]
    return table([f"server, batches of {BATCH} keys", "µs a record", "records/s"], rows), bars


def _success(commands: Commands, key: str) -> Command:
    return commands.successes(key, _POLICY, 0, 1, 120.0)


def _single(commands: Commands, key: str) -> Command:
    return commands.record(Admission(key, _POLICY, 0), Outcome.OK, 0.12, None)


def _failure(commands: Commands, key: str) -> Command:
    return commands.record(Admission(key, _POLICY, 0), Outcome.FAILURE, 0.12, "503 Service Unavailable")


_SCENES: list[tuple[str, int, Make]] = [
    ("successes, one bucket in use", 1, _success),
    ("successes, a full window", _BUCKETS, _success),
    ("success of a strict call, a full window", _BUCKETS, _single),
    ("failure, a full window", _BUCKETS, _failure),
]
_BARRED = ("successes, one bucket in use", "successes, a full window")


def _rate(client: redis.Redis, url: str, prefix: str, buckets: int, make: Make) -> float:
    """Records a second by the server's own count, in the best round."""
    word = prefix.replace(" ", "_")
    store, clock = store_with_clock(url, prefix=word, shards=64)
    includes = store._settings.includes
    commands = Commands(Keys(word, 64))
    names = list(islice(_of_one_shard(commands.keys), BATCH))
    source = script("batch", includes)
    client.script_load(source.source)
    _fill(client, clock, commands, names, source.sha, buckets)
    clock.close()

    # The clock stays swapped: by the real one these windows would be long past.
    best = 0.0
    for _ in range(ROUNDS):
        client.config_resetstat()
        _run(client, commands, [make(commands, name) for name in names], source.sha, _BATCHES)
        cost = said(client, "commandstats")["cmdstat_evalsha"]
        best = max(best, _BATCHES * BATCH / cost["usec"] * 1e6)
    return best


def _of_one_shard(keys: Keys) -> Iterator[str]:
    return (name for number in count() if keys.shard(name := f"ep_{number:021}") == 0)


def _fill(
    client: redis.Redis, clock: ServerClock, commands: Commands, names: list[str], sha: str, buckets: int
) -> None:
    for _ in range(buckets):
        clock.advance(_POLICY.bucket_ms / 1000)
        _run(client, commands, [_success(commands, name) for name in names], sha, 1)


def _run(client: redis.Redis, commands: Commands, batch: list[Command], sha: str, times: int) -> None:
    (call,) = commands.batches(batch)
    now = commands.keys.meta.replace("meta", "now")
    pipe = client.pipeline(transaction=False)
    for _ in range(times):
        # A millisecond later: in one that stands still no time to live would have to be written.
        pipe.incr(now)
        pipe.evalsha(sha, len(call.keys), *call.keys, *call.args)
    pipe.execute()
