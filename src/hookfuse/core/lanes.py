"""How lanes share what there is: order between applications, retries beside first tries, rate limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

DAY_MS = 86_400_000
BLOCKED_AT_MOST_MS = 60_000
"""A blocked lane is looked at again after this long, whatever the breaker said."""

_BURST_US = 100_000
_UNLIMITED = 1 << 30


class _OfApplication(Protocol):
    @property
    def app_id(self) -> str: ...


L = TypeVar("L", bound=_OfApplication)


def fair_order(lanes: Iterable[L]) -> Sequence[L]:
    """One lane of each application in turn, each application's own in their order."""
    turns: dict[str, int] = defaultdict(int)
    placed = []
    for lane in lanes:
        placed.append((turns[lane.app_id], lane))
        turns[lane.app_id] += 1
    placed.sort(key=lambda pair: pair[0])
    return [lane for _, lane in placed]


def late_share(slots: int, draw: int) -> int:
    """How many of the slots retries may have even if first tries want them all: one in five.

    `draw` is any random number: where five does not divide the slots, it decides about the one that is left.
    """
    return (slots + draw % 5) // 5


def rate_room(limit: int | None, next_us: int, now_ms: int) -> int:
    """How many requests a rate limit lets go now: what was left unused in the last tenth of a second, and one."""
    if limit is None:
        return _UNLIMITED
    now_us = now_ms * 1000
    if next_us > now_us:
        return 0
    since = max(next_us, now_us - _BURST_US)
    return (now_us - since) * limit // 1_000_000 + 1


def next_rate(limit: int | None, next_us: int, taken: int, now_ms: int) -> int:
    """When the next request may go, after `taken` more were let go."""
    if limit is None or taken == 0:
        return next_us
    return max(next_us, now_ms * 1000 - _BURST_US) + taken * 1_000_000 // limit
