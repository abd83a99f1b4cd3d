"""What a sampler asks of breakers in Redis: one script for each shard, a few hundred breakers at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any

from hookfuse.core.policy import Policy
from hookfuse.core.sample import Glance, Judgement, Sample
from hookfuse.core.state import Snapshot, Transition
from hookfuse.errors import StoreError
from hookfuse.stores.redis.commands import Call
from hookfuse.stores.redis.link import AsyncLink
from hookfuse.stores.redis.tail import check_meta
from hookfuse.stores.redis.verbs import Verbs

_log = logging.getLogger("hookfuse")

_CALLS_TOGETHER = 16
"""So that what goes out together is answered well within the deadline."""


class TaskSampling:
    """The part of a session that whoever leads uses."""

    _verbs: Verbs
    _link: AsyncLink

    async def judge(self, samples: Sequence[Sample], *, fence: int, floor: int) -> Judgement:
        await self._start()
        await self.flush()
        transitions: list[Transition] = []
        newest, replaced = 0, False
        calls = iter(self._verbs.commands.judgements(samples, fence, floor))
        while group := list(islice(calls, _CALLS_TOGETHER)):
            for call, result in zip(group, await self._link.run_all(group), strict=True):
                if isinstance(result, StoreError):
                    _log.warning("A shard could not be sampled; the next sample makes up for it: %s", result)
                    continue
                accepted, generation, replies = result
                replaced = replaced or accepted == b"0"
                newest = max(newest, int(generation))
                if accepted == b"1":
                    transitions += self._learned(call, replies)
        return Judgement(tuple(transitions), newest, replaced)

    async def glance(self, keys: Collection[str], policy_for: Callable[[str], Policy]) -> Glance:
        await self._start()
        await self.flush()
        now, found = 0.0, list[Snapshot]()
        for call, names in self._verbs.commands.pages(keys):
            now_ms, *hashes = await self._link.run(call)
            now = int(now_ms) / 1000
            found += (
                self._verbs.read_snapshot(name, policy_for(name), (now_ms, hash_))
                for name, hash_ in zip(names, hashes, strict=True)
            )
        return Glance(now, tuple(found))

    async def life(self) -> str:
        await self._start()
        # After a flush there is none until someone gives it one.
        await self._talk(self._link.ask, check_meta(self._verbs))
        _, life = await self._link.run(self._verbs.commands.pulse())
        return str(life.decode())

    def _learned(self, call: Call, replies: Sequence[Any]) -> list[Transition]:
        return [made for reply in self._verbs.learn_all(call, replies) for made in reply.transitions]

    async def _start(self) -> None:
        raise NotImplementedError

    async def flush(self) -> None:
        raise NotImplementedError

    async def _talk(self, carry: Any, talk: Any) -> None:
        raise NotImplementedError
