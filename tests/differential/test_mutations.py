"""The differential test bites: a script with one rule broken on purpose is told from the machine.

Each mutation is the kind of mistake that a translation makes: an edge on the wrong side, a guard left out, a write
forgotten.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

import pytest
import redis

from tests.differential.draw import draw_history
from tests.differential.history import History
from tests.differential.replay import HISTORIES, SEED, Scripts

drawn = cache(draw_history)


class Mutation(NamedTuple):
    claim: str
    include: str
    right: str
    wrong: str
    batched: bool = False


MUTATIONS = (
    Mutation("a probe is due at its instant", "machine", "now >= breaker.probe_ms", "now > breaker.probe_ms"),
    Mutation(
        "a probe is due when the clock went back", "machine", "math.min(breaker.probe_ms, now)", "breaker.probe_ms"
    ),
    Mutation("a report of this generation counts", "machine", "generation >= breaker", "generation > breaker"),
    Mutation("an older report does not count", "machine", "report.generation >= breaker.generation and", "true and"),
    Mutation("a lease ends at its deadline", "machine", "now >= deadline", "now > deadline"),
    Mutation("leases end when the clock went back", "machine", "_ms = now\n    breaker.held_leases = {}", "_ms = now"),
    Mutation("no more probes than allowed", "machine", "#deadlines >= policy", "#deadlines > policy"),
    Mutation("a success resets the streak", "machine", "failed == 0 then\n    breaker.streak = 0", "failed == 0 then"),
    Mutation("closing clears the streak", "machine", "(breaker)\n  breaker.streak = 0", "(breaker)"),
    Mutation("a bucket leaves after the window", "window", "bucket.start >= oldest", "bucket.start > oldest"),
    Mutation("old buckets leave", "window", "bucket.start >= oldest and", "true and"),
    Mutation("buckets of the future leave", "window", " and bucket.start <= now", ""),
    Mutation("a bucket is as wide as said", "window", "now >= newest.start", "now > newest.start"),
    Mutation("another width empties the window", "window", "breaker.buckets = {}\n    return", "return"),
    Mutation("a limit that is reached trips", "policy", "streak >= rule[1]", "streak > rule[1]"),
    Mutation("a rate needs enough calls", "policy", "calls >= rule[2] and", "calls > 0 and"),
    Mutation("cleared failures do not count", "policy", "math.min(failed, streak)", "failed"),
    Mutation("the first trip is not grown", "machine", "math.min(breaker.trips - 1,", "math.min(breaker.trips,"),
    Mutation("a hold ends at its instant", "machine", "now < breaker.hold_ms", "now <= breaker.hold_ms"),
    Mutation("a hold from before the clock went back is none", "machine", "breaker.held_ms <= now and ", ""),
    Mutation("a hold that is over is forgotten", "machine", "breaker.hold_ms > 0 and not held(breaker)", "false"),
    Mutation("the longest hold counts", "machine", "or until_ms > breaker.hold_ms", "or true"),
    Mutation("an override does not end in the past", "machine", "now >= until_ms then", "now > until_ms then"),
    Mutation(
        "an override ends at its instant",
        "machine",
        "now >= breaker.override_until_ms",
        "now > breaker.override_until_ms",
    ),
    Mutation("a ramp ends at its instant", "machine", "since < policy.ramp_ms", "since <= policy.ramp_ms"),
    Mutation("forgotten at its instant", "breaker", "or '0') > now", "or '0') >= now"),
    Mutation("generations grow with the clock", "breaker", "math.max(sequence + 1, now)", "sequence + 1"),
    Mutation("disabled breakers stay for ever", "breaker", "redis.call('PERSIST', breaker.redis_key)", "local _"),
    Mutation("a hold is announced", "machine", "      announce(breaker)\n", ""),
    Mutation("who is plain again leaves the index", "breaker", "redis.call('HDEL', index_key, breaker.key)", "local _"),
    Mutation("asking writes nothing", "machine", "token, made)\n", "token, made)\n  touch(breaker)\n"),
    Mutation("successes are judged where failures are", "machine", "bucket.failed > 0", "false", batched=True),
    Mutation("older successes are not counted", "machine", "or generation < breaker.generation", "", batched=True),
)


@pytest.mark.skipif(SEED is not None, reason="one history need not find every mistake")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.claim for mutation in MUTATIONS])
def test_a_broken_rule_is_found(client: redis.Redis, mutation: Mutation) -> None:
    """A script in which one rule is wrong differs from the machine within the histories of the suite."""
    lua = files("hookfuse.stores.redis") / "lua" / f"{mutation.include}.lua"
    source = lua.read_text("utf-8")
    mutated = source.replace(mutation.right, mutation.wrong)
    assert mutated != source

    scripts = Scripts(client, ((mutation.include, mutated),))

    def history(seed: int) -> History:
        return drawn(seed, batched=mutation.batched)

    assert any(scripts.replay(history(seed)) for seed in range(HISTORIES))
