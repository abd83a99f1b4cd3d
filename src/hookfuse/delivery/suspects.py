"""Deliveries whose worker died: one of them may have killed it, and the others were merely near.

So few of them are in hand at once, and one that lost two workers is tried alone: nothing is begun beside it until it
has ended or has done no harm for a while. Whoever was near when a worker died is not charged three times. In hand is
all that the database has not heard of: what is not taken goes back before the others begin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from hookfuse.core.delivery import Claim, Deferral, Place

_AT_ONCE = 16
_PAUSE_MS = 50
_TRIAL = 0.25
"""Seconds. Who kills a worker does it at once; who merely hangs must not hold up the others."""


class Suspects:
    """Those that are in the hands of one worker."""

    def __init__(self) -> None:
        self._held: dict[Place, int] = {}
        self._acquitted = asyncio.Event()

    def sift(self, claims: Sequence[Claim]) -> tuple[Sequence[Claim], Sequence[Deferral]]:
        """Which claims to take, and what to give back before these begin."""
        if not any(claim.deaths for claim in claims):
            return claims, ()
        gravest = max(claims, key=lambda claim: claim.deaths)
        if gravest.deaths > 1 and not self._held:
            self._hold(gravest)
            return [gravest], [_put_off(claim) for claim in claims if claim is not gravest]
        taken, refused = [], []
        for claim in claims:
            if claim.deaths == 0 or self._may_join(claim):
                self._hold(claim)
                taken.append(claim)
            else:
                refused.append(_put_off(claim))
        return taken, refused

    async def trial(self) -> None:
        """Wait while one is tried alone."""
        if self._is_trial():
            self._acquitted.clear()
            try:
                async with asyncio.timeout(_TRIAL):
                    await self._acquitted.wait()
            except TimeoutError:
                pass

    def written(self, claims: Iterable[Claim]) -> None:
        """These are out of our hands."""
        if self._held:
            for claim in claims:
                self._held.pop(_place(claim), None)
            if not self._is_trial():
                self._acquitted.set()

    def _may_join(self, claim: Claim) -> bool:
        return claim.deaths == 1 and len(self._held) < _AT_ONCE and not self._is_trial()

    def _is_trial(self) -> bool:
        return any(deaths > 1 for deaths in self._held.values())

    def _hold(self, claim: Claim) -> None:
        if claim.deaths:
            self._held[_place(claim)] = claim.deaths


def _place(claim: Claim) -> Place:
    return Place(claim.message_id, claim.endpoint_id)


def _put_off(claim: Claim) -> Deferral:
    return Deferral(claim, "suspect", delay_ms=_PAUSE_MS) if claim.deaths else Deferral(claim, "released")
