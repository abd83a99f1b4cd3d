"""What plain retrying would have done: the requests that an open breaker saved.

Plain retrying sends a message when it is accepted, and after each failure once more by the endpoint's schedule, until
it succeeds or the schedule is used up. A request of it is *doomed* if the receiver was out of order at that instant.
Those that fall into a time in which the breaker was not closed are the ones that it could avoid; what was sent all the
same, the probes, is taken off again by whoever knows the attempts. Delays count as they are written, without jitter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Period(NamedTuple):
    """From `begin` until just before `end`, in Unix seconds."""

    begin: float
    end: float


def doomed(
    accepted_at: Iterable[float], delays: Sequence[float], broken: Sequence[Period], until: float
) -> list[float]:
    """When plain retrying would have sent in vain, up to `until`; `broken` says when the receiver was out of order."""
    return [at for first in accepted_at for at in _sent_in_vain(first, delays, broken) if at < until]


def within(instants: Iterable[float], periods: Sequence[Period]) -> list[float]:
    """Those that fall into one of the periods."""
    return [at for at in instants if _covers(periods, at)]


def periods(changes: Iterable[tuple[float, bool]], until: float) -> list[Period]:
    """The times in which something was so; each change says from when on it was, or was not. The last is cut off."""
    found: list[Period] = []
    begin: float | None = None
    for at, so in changes:
        if so and begin is None:
            begin = at
        elif not so and begin is not None:
            found.append(Period(begin, at))
            begin = None
    return found if begin is None else [*found, Period(begin, until)]


def _sent_in_vain(first: float, delays: Sequence[float], broken: Sequence[Period]) -> list[float]:
    found: list[float] = []
    at = first
    for delay in (*delays, 0.0):
        if not _covers(broken, at):
            break
        found.append(at)
        at += delay
    return found


def _covers(periods: Sequence[Period], at: float) -> bool:
    return any(begin <= at < end for begin, end in periods)
