"""Which breaker guards an endpoint, by which policy, and how far back a sample of it looks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from hookfuse.core.lanes import DAY_MS
from hookfuse.core.policy import Policy
from hookfuse.core.tally import SLOT_MS, Guarded, Seen
from hookfuse.errors import HookfuseError
from hookfuse.ports.service import Presets
from hookfuse.ports.tallies import Tallies

_MOST_KEPT = 200_000


class GuardStore(Tallies, Presets, Protocol):
    """Where endpoints, their policies and their tallies are."""


class Guard(NamedTuple):
    version: int
    key: str
    policy: Policy
    back_ms: int
    every: float
    """Seconds between its samples."""


class Guards:
    """The guards of endpoints that had traffic, read once for each version of an endpoint."""

    def __init__(self, store: GuardStore, default: Policy) -> None:
        self._store = store
        self._settings = self._default = default
        self._policies: dict[Policy, Policy] = {}
        self._known: dict[str, Guard] = {}
        self.rhythms: set[float] = set()
        """Every `sample_every` of a sampled policy, in seconds."""
        self.longest_ms = 0
        self._meet(default)

    async def survey(self) -> None:
        """Look at every policy there is, and not only at those of endpoints with traffic."""
        stored = [self._policy(each) for each in await self._store.stored_policies()]
        self.rhythms, self.longest_ms = set(), 0
        for policy in (*stored, self._default):
            self._meet(policy)

    def backs(self) -> tuple[int, dict[str, int]]:
        """How far back most endpoints are looked at, and those that are not."""
        counted = Counter(guard.back_ms for guard in self._known.values())
        most = counted.most_common(1)[0][0] if counted else look_back(self._default)
        return most, {id_: guard.back_ms for id_, guard in self._known.items() if guard.back_ms != most}

    async def learn(self, seen: Iterable[Seen]) -> None:
        """Know the guards of these endpoints as they are now."""
        known = self._known
        missing = [each.endpoint_id for each in seen if _older(known.get(each.endpoint_id), each.version)]
        if not missing:
            return
        if len(known) + len(missing) > _MOST_KEPT:
            known.clear()
        preset = await self._store.default_policy()
        self._default = self._settings if preset is None else self._policy(preset)
        for found in await self._store.guarded(missing):
            known[found.endpoint_id] = self._guard(found)

    def of(self, endpoint_id: str) -> Guard | None:
        return self._known.get(endpoint_id)

    def _guard(self, found: Guarded) -> Guard:
        policy = self._default if found.policy is None else self._policy(found.policy)
        self._meet(policy)
        return Guard(found.version, found.key, policy, look_back(policy), _seconds(policy))

    def _meet(self, policy: Policy) -> None:
        self.longest_ms = max(self.longest_ms, look_back(policy))
        if not policy.inline:
            self.rhythms.add(_seconds(policy))

    def _policy(self, data: Mapping[str, Any]) -> Policy:
        """Equal policies are one object, which stores know by its identity."""
        try:
            policy = Policy.from_dict(data)
        except (HookfuseError, TypeError, ValueError):
            # One endpoint's settings must not end the sampling of all; workers use the default too.
            return self._default
        return self._policies.setdefault(policy, policy)


def look_back(policy: Policy) -> int:
    """In milliseconds. A slot counts as long as any of it is in the window; nothing is kept for longer than a day."""
    return min(policy.window_ms, DAY_MS) + SLOT_MS - 1


def _older(known: Guard | None, version: int) -> bool:
    return known is None or known.version < version


def _seconds(policy: Policy) -> float:
    every = policy.sample_every
    return every if isinstance(every, int | float) else every.total_seconds()
