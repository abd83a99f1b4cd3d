"""Judges breakers whose policy is sampled, from what settling has counted.

A sample is one query over the slots of the window, whatever history there is, and most of it ends there: a breaker
that is plainly closed and whose counts break no rule has nothing to be told. The others are looked at where they are
kept. What changed within the window is counted again from its last transition, and what is left is judged by one
script for each shard, which refuses a leader that was replaced and skips a breaker that has changed in between. So a
leader may die at any step: what it did not write, the next sample does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.duty import Tenure
from hookfuse.core.policy import Policy
from hookfuse.core.sample import Judgement, Sample
from hookfuse.core.state import CLOSED, DISABLED, NOT_FORCED, Snapshot
from hookfuse.core.tally import Seen
from hookfuse.core.window import Counts
from hookfuse.delivery.guards import Guards
from hookfuse.delivery.keeper import Keeper
from hookfuse.delivery.stopping import stop_guarded
from hookfuse.errors import StoreError
from hookfuse.ports import DeliveryStore

_log = logging.getLogger("hookfuse.delivery")

_RHYTHM = 30.0
_AGAIN_AFTER = 1.0
_SURVEY_EVERY = 600.0
_LONG_STREAK = 1 << 30


class Sampled(NamedTuple):
    """What a sample came to."""

    endpoints: int
    """Those that had traffic."""
    samples: int
    """Breakers that had to be judged where they are kept."""
    judgement: Judgement
    rebuilt: bool = False
    """Whether the store had lost its breakers."""


@dataclass(slots=True)
class _Counted:
    """What was counted of one breaker, and the endpoints it guards."""

    policy: Policy
    counts: Counts = field(default_factory=Counts)
    backs: dict[str, int] = field(default_factory=dict)


class Sampler:
    """Samples for the whole fleet while it leads, or for its own breakers where they are not shared."""

    def __init__(
        self, store: DeliveryStore, breakers: AsyncBreakers, default: Policy, keeper: Keeper | None = None
    ) -> None:
        self._store = store
        self._breakers = breakers
        self._keeper = keeper
        self._guards = Guards(store, default)
        self._surveyed_at = -_SURVEY_EVERY
        self._due_at: float | None = None

    @property
    def overdue(self) -> float:
        """Seconds by which the next sample is late; 0 also where another process samples."""
        return 0.0 if self._due_at is None else max(0.0, time.monotonic() - self._due_at)

    async def run(self, tenure: Tenure | None = None) -> None:
        """Sample each policy in its own rhythm, for as long as the duty is held."""
        self._due_at = time.monotonic()
        try:
            await self._sample_on(tenure)
        finally:
            self._due_at = None

    async def _sample_on(self, tenure: Tenure | None) -> None:
        sampled_at: dict[float, float] = {}
        while True:
            now = time.monotonic()
            rhythms = self._guards.rhythms | {_RHYTHM}
            due = {every for every in rhythms if now >= sampled_at.get(every, -every) + every}
            try:
                sampled = await self.sample(tenure, due)
                if sampled.judgement.replaced:
                    _log.warning("another process samples by now; this one's sample was refused")
            except StoreError as error:
                _log.warning("sampling waits: %s", error)
                await asyncio.sleep(_AGAIN_AFTER)
                continue
            sampled_at |= dict.fromkeys(due, now)
            self._due_at = min(sampled_at.get(every, 0.0) + every for every in self._guards.rhythms | {_RHYTHM})
            await asyncio.sleep(max(self._due_at - time.monotonic(), 0.0))

    async def sample(self, tenure: Tenure | None = None, due: Collection[float] | None = None) -> Sampled:
        """Judge the breakers of policies with one of these rhythms; None: all that are sampled."""
        await self._survey()
        floor, rebuilding = 0, False
        if self._keeper is not None:
            floor, rebuilding = await self._keeper.look(tenure)
        seen = await self._see()
        # What was lost is rebuilt whatever its rhythm, and that of inline policies too.
        counted = self._by_key(seen, None if rebuilding else due, inline=rebuilding)
        samples = await self._samples(counted)
        judgement = await self._breakers.judge(samples, fence=0 if tenure is None else tenure.fence, floor=floor)
        for made in judgement.transitions:
            if made.after is DISABLED and counted[made.key].policy.reenable_ms is None:
                await stop_guarded(self._store, made.key, made.reason, tenure)
        if not judgement.replaced:
            if self._keeper is not None:
                await self._keeper.keep(judgement.generation, tenure)
            await self._store.prune_tallies(self._guards.longest_ms, tenure=tenure)
        return Sampled(len(seen), len(samples), judgement, rebuilding)

    async def _survey(self) -> None:
        now = time.monotonic()
        if now >= self._surveyed_at + _SURVEY_EVERY:
            await self._guards.survey()
            self._surveyed_at = now

    async def _see(self) -> list[Seen]:
        most, others = self._guards.backs()
        seen = {each.endpoint_id: each for each in await self._store.seen(most, others)}
        await self._guards.learn(seen.values())
        wrong: dict[str, int] = {}
        for id_ in seen:
            guard = self._guards.of(id_)
            if guard is not None and guard.back_ms != others.get(id_, most):
                wrong[id_] = guard.back_ms
        for id_ in wrong:
            del seen[id_]
        seen |= {each.endpoint_id: each for each in await self._store.seen_of(wrong)}
        return list(seen.values())

    def _by_key(self, seen: Iterable[Seen], due: Collection[float] | None, *, inline: bool) -> dict[str, _Counted]:
        found: dict[str, _Counted] = {}
        for endpoint_id, _, counts in seen:
            guard = self._guards.of(endpoint_id)
            if guard is None or (guard.policy.inline and not inline):
                continue
            if due is not None and guard.every not in due:
                continue
            known = found.get(guard.key)
            if known is None:
                known = found[guard.key] = _Counted(guard.policy)
            known.counts = _sum(known.counts, counts)
            known.backs[endpoint_id] = guard.back_ms
        return found

    async def _samples(self, counted: Mapping[str, _Counted]) -> list[Sample]:
        """Those that may come to something, counted from their last transition."""
        heard = self._breakers.heard
        keys = [key for key, each in counted.items() if heard(key) is None or _may_trip(each.policy, each.counts)]
        if not keys:
            return []
        now, breakers = await self._breakers.glance(keys)
        await self._recount(counted, now, breakers)
        return [
            Sample(seen.key, counted[seen.key].policy, counted[seen.key].counts, seen.generation)
            for seen in breakers
            if _may_change(seen, counted[seen.key])
        ]

    async def _recount(self, counted: Mapping[str, _Counted], now: float, breakers: Iterable[Snapshot]) -> None:
        backs: dict[str, int] = {}
        changed: dict[str, str] = {}
        for seen in breakers:
            # As an age, because the two clocks may differ.
            age_ms = round((now - (seen.changed_at or 0.0)) * 1000)
            for endpoint_id, back_ms in counted[seen.key].backs.items():
                if age_ms < back_ms:
                    backs[endpoint_id] = max(age_ms, 0)
                    changed[endpoint_id] = seen.key
        for key in changed.values():
            counted[key].counts = Counts()
        for endpoint_id, _, counts in await self._store.seen_of(backs):
            key = changed[endpoint_id]
            counted[key].counts = _sum(counted[key].counts, counts)


def _sum(one: Counts, other: Counts) -> Counts:
    return Counts(*map(sum, zip(one, other, strict=True))) if one.calls else other


def _may_trip(policy: Policy, counts: Counts) -> bool:
    """Whether a rule could be broken. How long a streak is only the breaker knows."""
    streak = _LONG_STREAK if counts.failed else 0
    return any(rule.breached(counts, streak) is not None for rule in policy.rules)


def _may_change(seen: Snapshot, counted: _Counted) -> bool:
    if seen.override is not NOT_FORCED:
        return False
    if seen.state is CLOSED:
        return _may_trip(counted.policy, counted.counts)
    return seen.state is not DISABLED or seen.probe_at is not None
