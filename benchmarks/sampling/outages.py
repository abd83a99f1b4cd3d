"""A day of 300 clients, each with thresholds of its own and one breaker for all its URLs, and about 50 outages.

A bad minute is one in which a client was sent at least ten calls that failed or took longer than its threshold. Without
a breaker every minute of an outage is bad; with one, those are left in which it had not yet opened, or tried again.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass

from benchmarks.report import Bar, progress, say, table
from benchmarks.sampling.world import DAY, STEP, World, world
from hookfuse import Outcome, Policy, profiles
from hookfuse.core.state import State

CLIENTS = 300
OUTAGES = 50
AVOIDED = 0.7
BAD_CALLS = 10

_FAST_MS, _SLOW_MS = 80, 20_000
_MEAN_MINUTES = 10.0


@dataclass(frozen=True)
class Trouble:
    client: str
    begins: float
    ends: float
    errors: bool
    """Else it answers, and slowly."""


class Ledger:
    """Bad calls by client and minute."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, int], int] = defaultdict(int)

    def add(self, client: str, second: float, calls: int) -> None:
        self._calls[client, int(second // 60)] += calls

    @property
    def minutes(self) -> int:
        return sum(calls >= BAD_CALLS for calls in self._calls.values())


def measure() -> tuple[str, list[Bar]]:
    say("sampling: a day of outages")
    draws = random.Random(3)
    clients = {f"client_{n}": draws.uniform(1, 8) for n in range(CLIENTS)}
    troubles = [_trouble(draws, name) for name in draws.choices(list(clients), k=OUTAGES)]
    plain = Ledger()
    for trouble in troubles:
        for second in range(int(trouble.begins), int(trouble.ends), STEP):
            plain.add(trouble.client, second, int(clients[trouble.client] * STEP))
    guarded, opened, healthy = asyncio.run(_day(clients, troubles))
    avoided = 1 - guarded.minutes / plain.minutes
    rows = [
        ["without a breaker", f"{plain.minutes:,}", "-", "-"],
        ["sampled", f"{guarded.minutes:,}", f"{plain.minutes - guarded.minutes:,}", f"{opened}"],
    ]
    head = [f"{CLIENTS} clients, {OUTAGES} outages", "bad minutes", "avoided", "opened"]
    return table(head, rows), [
        Bar(f"at least {AVOIDED:.0%} of the bad minutes are avoided", f"{avoided:.1%}", avoided >= AVOIDED),
        Bar("clients without an outage are never refused", f"{healthy} were", healthy == 0),
    ]


def _trouble(draws: random.Random, client: str) -> Trouble:
    begins = draws.uniform(0, DAY - 3_600)
    minutes = 2 + draws.expovariate(1 / (_MEAN_MINUTES - 2))
    return Trouble(client, begins, begins + 60 * min(minutes, 55), draws.random() < 0.5)


async def _day(clients: dict[str, float], troubles: list[Trouble]) -> tuple[Ledger, int, int]:
    """Returns the bad minutes, how often a breaker opened, and how often a client in no trouble was refused."""
    draws = random.Random(5)
    # Half of the clients have thresholds of their own, set by them; the defaults stand behind the others.
    own: dict[str, Policy] = {
        name: profiles.latency(mean=draws.choice((2, 5)), errors=draws.choice((20, 40)))
        for name in list(clients)[: CLIENTS // 2]
    }
    ledger, opened, refused = Ledger(), 0, 0
    async with world(profiles.latency()) as found:
        await found.endpoints(list(clients), own)
        for second in range(0, DAY, STEP):
            bad = {each.client: each for each in troubles if each.begins <= second < each.ends}
            counted = {}
            for name, rate in clients.items():
                trouble = bad.get(name)
                sent = await _send(found, name, int(rate * STEP), trouble)
                if sent and trouble is not None:
                    ledger.add(name, second, sent)
                elif not sent and trouble is None:
                    seen = await found.breakers.inspect(found.key(name))
                    # What has just recovered waits for its probe.
                    refused += seen.state is State.OPEN and not _lately(troubles, name, second)
                counted[name] = _counts(sent, trouble)
            await found.settle(counted)
            found.clock.advance(STEP)
            if (second + STEP) % 60 == 0:
                made = (await found.sample()).judgement.transitions
                opened += sum(each.after is State.OPEN for each in made)
            if second % 8_640 == 0:
                progress("a day of outages", second, DAY)
    return ledger, opened, refused


async def _send(found: World, name: str, calls: int, trouble: Trouble | None) -> int:
    """How many calls are made: all of them, a probe, or none."""
    if trouble is None and found.breakers.heard(found.key(name)) is not None:
        return calls
    admission = await found.breakers.admit(found.key(name))
    if not admission.allowed:
        return 0
    outcome = Outcome.FAILURE if trouble is not None and trouble.errors else Outcome.OK
    latency_ms = _SLOW_MS if trouble is not None and not trouble.errors else _FAST_MS
    await found.breakers.record(admission, outcome, latency=latency_ms / 1000)
    return 1 if admission.probe else calls


def _counts(sent: int, trouble: Trouble | None) -> tuple[int, int, int]:
    if trouble is None:
        return sent, 0, sent * _FAST_MS
    return (0, sent, sent * _FAST_MS) if trouble.errors else (sent, 0, sent * _SLOW_MS)


def _lately(troubles: list[Trouble], client: str, second: float) -> bool:
    return any(each.client == client and each.ends <= second < each.ends + 600 for each in troubles)
