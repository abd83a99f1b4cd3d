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
from tests.differential.replay import FAILED, HISTORIES, SEED, Scripts

drawn = cache(draw_history)


class Mutation(NamedTuple):
    claim: str
    include: str
    right: str
    wrong: str
    batched: bool = False


COUNTS = ("ok", "failed", "slow", "timed", "latency")
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
    Mutation("a bucket leaves after the window", "window", "window.past) < oldest", "window.past) <= oldest"),
    Mutation("so does the newest", "window", "window.start_ms < oldest", "window.start_ms <= oldest"),
    Mutation("old buckets leave", "window", "while window.past ~= '' and", "while false and"),
    Mutation("an old newest bucket leaves", "window", "window.start_ms < oldest", "false"),
    Mutation("buckets of the future leave", "window", "if window.start_ms > now", "if false"),
    Mutation("all of them leave", "window", "while window.start_ms > now do", "if window.start_ms > now then"),
    Mutation("a bucket is as wide as said", "window", "now >= window.until_ms", "now > window.until_ms"),
    Mutation(
        "one that goes on is as wide too", "window", "    window.until_ms = window.start_ms + window.width_ms\n", ""
    ),
    Mutation("another width empties the window", "window", "bucket_ms\n    window_clear(window)", "bucket_ms"),
    *(
        Mutation(
            f"what is sealed joins its total: {count}", "window", f"past_{count} + window.{count}\n", f"past_{count}\n"
        )
        for count in COUNTS
    ),
    *(
        Mutation(
            f"what leaves is taken off its total: {count}", "window", f"past_{count} - {count}\n", f"past_{count}\n"
        )
        for count in COUNTS
    ),
    *(
        Mutation(
            f"sealed buckets are judged: {count}",
            "window",
            f"window.past_{count} + window.{count},",
            f"window.{count},",
        )
        for count in COUNTS
    ),
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
    Mutation("forgotten at its instant", "breaker", "(was.expires_ms or 0) > now", "(was.expires_ms or 0) >= now"),
    Mutation("what is forgotten is overwritten whole", "breaker", "redis.call('DEL', key)", "local _"),
    Mutation("what is default again is not stored", "breaker", "redis.call('HDEL', key, unpack(unset))", "local _"),
    Mutation("generations grow with the clock", "breaker", "math.max(sequence + 1, now)", "sequence + 1"),
    Mutation("disabled breakers stay for ever", "breaker", "redis.call('PERSIST', key)", "local _"),
    Mutation("a hold is announced", "machine", "      announce(breaker)\n", ""),
    Mutation("who is plain again leaves the index", "breaker", "redis.call('HDEL', index_key, breaker.key)", "local _"),
    Mutation("asking writes nothing", "machine", "token, made)\n", "token, made)\n  touch(breaker)\n"),
    Mutation("the last five failures are kept", "machine", "string.match(breaker.failures, LAST_FOUR) or", ""),
    Mutation(
        "successes are judged where failures are",
        "machine",
        "window.past_failed + window.failed > 0",
        "window.past_failed > 0",
        batched=True,
    ),
    Mutation(
        "and where they were", "machine", "window.past_failed + window.failed > 0", "window.failed > 0", batched=True
    ),
    Mutation(
        "a run of successes slides the window first",
        "machine",
        "window_slide(window, policy, now)\n  if window",
        "if window",
        batched=True,
    ),
    Mutation(
        "looking at the counts changes nothing",
        "machine",
        "window_unpack(window_pack(own), own.width_ms)",
        "own",
    ),
    Mutation(
        "an older sample is not judged",
        "machine",
        "generation < 0 or generation >= breaker.generation",
        "true",
        batched=True,
    ),
    Mutation(
        "a sample without a success knows the streak",
        "machine",
        "tally and math.max(breaker.streak, streak_of(tally)) or breaker.streak",
        "breaker.streak",
        batched=True,
    ),
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

    found = next(filter(None, (scripts.replay(history(seed)) for seed in range(HISTORIES))), None)
    assert found is not None
    assert FAILED not in found.what, "a script that cannot run breaks no rule"
