"""Instants and durations, as people write and read them. Every time that is shown is UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])", re.ASCII)
_DURATION = re.compile(rf"(?:{_PART.pattern})+", re.ASCII)
_LONGEST = 3_660 * 86_400.0

PAST = "2030-01-31, 2030-01-31T18:00Z, or 2h for two hours ago"
"""How an instant that has been is written."""


def read_duration(text: str) -> float:
    """Seconds of 30m, 2h, 1d or 1h30m."""
    if not _DURATION.fullmatch(text):
        raise ValueError("a duration looks like 30m, 2h, 1d or 1h30m")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
    if not 0 < seconds <= _LONGEST:
        raise ValueError("a duration is longer than nothing and at most 3660d")
    return seconds


def read_instant(text: str) -> float:
    """Unix seconds of an ISO 8601 time; without an offset it is UTC, like every time shown here."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("a time looks like 2030-01-31T18:00Z or 2030-01-31T18:00+01:00") from None


def read_past(text: str, now: float) -> float:
    """Unix seconds of a time, of a day's beginning in UTC, or of as long ago as a duration says."""
    if _DURATION.fullmatch(text):
        return now - read_duration(text)
    try:
        return read_instant(text)
    except ValueError:
        raise ValueError(f"a time looks like {PAST}") from None


def span(seconds: float) -> str:
    """A duration, as exact as anyone cares: 26 s, 4 min, 3 h, 12 days."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    if seconds < 99.5 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 47.5 * 3_600:
        return f"{seconds / 3_600:.0f} h"
    return f"{seconds / 86_400:.0f} days"


def milliseconds(seconds: float) -> str:
    """How long a request took."""
    return f"{seconds * 1000:,.1f} ms"


def ago(at: float, now: float) -> str:
    return "just now" if now - at < 0.5 else f"{span(now - at)} ago"


def ahead(at: float, now: float) -> str:
    return "now" if at - now < 0.5 else f"in {span(at - now)}"


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
