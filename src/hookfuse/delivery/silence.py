"""Endpoints that leave their requests unanswered do not get a worker's last slots.

A lane that worked well may have many requests in flight, and if its endpoint begins to hang, nobody knows before their
deadlines. A hundred such lanes would hold every slot until then. So a share of the slots is for endpoints that answer:
once the others are taken, an endpoint with a request that has been out for a while gets no more, and is looked at again
a moment later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hookfuse.core.delivery import Claim, Deferral
from hookfuse.delivery.targets import Target

_SHARE = 4
"""One slot in so many is for endpoints that answer."""
_SILENT_AFTER = 1.0
"""Seconds, or a tenth of the endpoint's deadline if that is shorter."""
_PAUSE_MS = 250


def kept_free(slots: int) -> int:
    """How many slots are for endpoints that answer."""
    return slots // _SHARE


def sift(
    claims: Sequence[Claim], targets: Mapping[str, Target], begun: Iterable[tuple[str, float]], room: int, now: float
) -> tuple[Sequence[Claim], Sequence[Deferral]]:
    """Which claims to take, and which to put off, if `room` is what those without an answer may take together.

    `begun` are the requests in flight, each with its endpoint and when it began.
    """
    oldest: dict[str, float] = {}
    for endpoint_id, at in begun:
        if at < oldest.get(endpoint_id, now):
            oldest[endpoint_id] = at
    silent = {id_ for id_, at in oldest.items() if now - at >= _patience(targets.get(id_))}
    taken, put_off = [], []
    room -= sum(claim.endpoint_id not in silent for claim in claims)
    for claim in claims:
        if claim.endpoint_id not in silent:
            taken.append(claim)
        elif room > 0:
            room -= 1
            taken.append(claim)
        else:
            put_off.append(Deferral(claim, "unanswered", wait_ms=_PAUSE_MS))
    return taken, put_off


def _patience(target: Target | None) -> float:
    return _SILENT_AFTER if target is None else min(_SILENT_AFTER, target.timeout / 10)
