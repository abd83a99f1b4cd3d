"""Endpoints that leave their requests unanswered do not hold a worker's slots.

A lane that worked well may have many requests in flight, and if its endpoint begins to hang, nobody knows before their
deadlines. A hundred such lanes would hold every slot until then; so would, with a request each, more endpoints than
there are slots. But a request that is only waited for costs a connection and nothing else. So an endpoint is silent
once a request has been out for a while in which nothing was answered. Silent endpoints hold a tenth of the slots
together, as failing ones do. Beyond that they get nothing more, and are looked at again a moment later; and what they
already have is set aside: it goes on to its deadline without a slot, as much as there are slots.

An endpoint that is only slow keeps answering, so it is not silent. One that answered what was sent after the request it
leaves hanging gets more: without it nobody would learn before the deadline that it is well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import takewhile
from math import inf
from typing import NamedTuple

from hookfuse.core.delivery import Claim, Deferral

_SHARE = 10
_SILENT_AFTER = 1.0
"""Seconds, or a tenth of the endpoint's deadline if that is shorter."""
_SOONEST = 0.05
"""Seconds. Nobody is silent sooner, so what is younger need not be looked at."""
_PAUSE_MS = 250


class Out(NamedTuple):
    """A request that is out."""

    endpoint_id: str
    began: float
    timeout: float


class Silence:
    """Who is silent, as of the last look."""

    def __init__(self, slots: int, now: Callable[[], float]) -> None:
        self._slots = slots
        self._now = now
        # When endpoints answered last, of those that did a moment ago or have requests that have been out for a while.
        self._answered: dict[str, float] = {}
        self._put_off: set[str] = set()
        self._unanswered = 0

    def look(self, *out: Iterable[Out]) -> None:
        """See which requests are out, in several lines, in each those that began first first."""
        now = self._now()
        late: set[str] = set()
        self._put_off = set()
        self._unanswered = 0
        for line in out:
            for endpoint_id, began, timeout in takewhile(lambda each: now - each.began >= _SOONEST, line):
                patience = max(_SOONEST, min(_SILENT_AFTER, timeout / 10))
                if now - began >= patience:
                    late.add(endpoint_id)
                    answered = self._answered.get(endpoint_id, -inf)
                    if now - answered >= patience:
                        self._unanswered += 1
                        # Whoever answered what came later is well: it only was not asked since.
                        if began >= answered:
                            self._put_off.add(endpoint_id)
        # An answer is forgotten when every request that is not late yet began after it.
        self._answered = {id_: at for id_, at in self._answered.items() if now - at < _SILENT_AFTER or id_ in late}

    def answered(self, endpoint_id: str) -> None:
        self._answered[endpoint_id] = self._now()
        self._put_off.discard(endpoint_id)

    @property
    def set_aside(self) -> int:
        """How many requests that are out hold no slot."""
        return min(max(0, self._unanswered - max(1, self._slots // _SHARE)), self._slots)

    def sift(self, claims: Sequence[Claim]) -> tuple[Sequence[Claim], Sequence[Deferral]]:
        """Which claims to take, and which to put off."""
        if not self.set_aside:
            return claims, ()
        taken = [claim for claim in claims if claim.endpoint_id not in self._put_off]
        put_off = [claim for claim in claims if claim.endpoint_id in self._put_off]
        return taken, [Deferral(claim, "unanswered", wait_ms=_PAUSE_MS) for claim in put_off]
