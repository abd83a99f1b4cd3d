"""How lanes share what there is: applications alike, retries beside first tries, rate limits."""

from __future__ import annotations

from collections import Counter, defaultdict
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


def reaches(apps: Sequence[str], slots: int) -> list[int]:
    """How many deliveries of each lane are worth a look, if these are the applications of the lanes.

    Its share as one of the lanes, or as one of its application's, whichever is more: together some more than twice the
    slots.
    """
    lanes = Counter(apps)
    return [-(-slots // min(len(apps), lanes[app] * len(lanes))) for app in apps]


def shares(apps: Sequence[str], due: Sequence[int], slots: int) -> list[int]:
    """How many of what is `due` in each lane are taken: applications share the slots, and its lanes each one's part."""
    places: dict[str, list[int]] = defaultdict(list)
    for place, app in enumerate(apps):
        places[app].append(place)
    taken = [0] * len(apps)
    parts = _shared([sum(due[place] for place in of_app) for of_app in places.values()], slots)
    for of_app, part in zip(places.values(), parts, strict=True):
        for place, share in zip(of_app, _shared([due[place] for place in of_app], part), strict=True):
            taken[place] = share
    return taken


def _shared(wants: Sequence[int], most: int) -> list[int]:
    """Each gets what it wants, or as much as anyone else who wants more; what cannot be divided goes to the first."""
    if sum(wants) <= most:
        return list(wants)
    parts = [0] * len(wants)
    # From the smallest wish on, and of equal ones from the last: whoever follows shares what those before left.
    for before, place in enumerate(sorted(range(len(wants)), key=lambda at: (wants[at], -at))):
        parts[place] = min(wants[place], most // (len(wants) - before))
        most -= parts[place]
    return parts


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
