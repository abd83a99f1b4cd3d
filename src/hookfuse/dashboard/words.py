"""Values as people read them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
from markupsafe import Markup

_OURS = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+", re.ASCII)
_JOINT = re.compile(r"(?<=[/.?&=_,-])(?=[^/])")
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400

CONDITIONS = {
    "disabled": "Disabled",
    "forced_open": "Forced open",
    "open": "Open",
    "half_open": "Half open",
    "blocked": "Blocked",
    "held": "Asked to wait",
    "failing": "Failing",
    "paused": "Paused",
    "forced_closed": "Forced closed",
    "ramp": "Ramping up",
    "closed": "Closed",
}
GROUPS = {
    "open,forced_open": "Open",
    "half_open": "Half open",
    "disabled": "Disabled",
    "blocked,held,failing": "Troubled",
    "paused": "Paused",
    "closed,ramp,forced_closed": "Closed",
}
"""Every condition in one of a few groups, for a glance."""
STATES = {
    "pending": "Pending",
    "sending": "Sending",
    "sent": "Sent",
    "failed": "Failed",
    "cancelled": "Cancelled",
}
_RULES = {
    "streak": "failures in a row",
    "count": "failures in the window",
    "rate": "failure share",
    "latency": "mean latency",
    "slow": "slow calls",
}
_REASONS = {
    "exhausted": "out of tries",
    "final_status": "refused for good",
    "gone": "the endpoint answered 410",
    "gone: the endpoint answered 410": "the endpoint answered 410",
    "throttled": "asked to wait",
    "egress_suspect": "our own network is suspect",
    "internal_error": "it broke here; the log says how",
    "endpoint_missing": "its endpoint was deleted",
    "retry_asked": "a retry was asked for",
    "breaker_open": "the breaker is open",
    "breaker_probing": "another delivery probes",
    "breaker_store_unavailable": "the breakers could not be asked",
    "breaker_disabled": "the endpoint is disabled",
    "breaker_forced_open": "forced open",
    "breaker_throttled": "asked to wait",
    "quarantined": "quarantined: it lost its worker again and again",
    "by hand": "disabled by hand",
    "destination_blocked": "its address is not one that is dialled",
    "force_open": "forced open, no reason given",
    "force_closed": "forced closed, no reason given",
    "unforce": "the override was ended",
    "probe": "a probe was asked for",
    "disable": "disabled, no reason given",
    "enable": "enabled again",
    "reset": "reset",
}
_TROUBLES = {
    "dns": "its name could not be resolved",
    "connect": "no connection",
    "tls": "no trusted TLS connection",
    "timeout": "no whole answer in time",
    "disconnected": "the connection ended before the answer did",
    "protocol": "the answer is not HTTP",
    "local": "our own fault",
    "destination_blocked": "its address is not one that is dialled",
}


def word(value: str) -> str:
    """A state, condition or reason in words; what has none stays as it is."""
    return CONDITIONS.get(value) or STATES.get(value) or reason(value)


def reason(value: str) -> str:
    """A word of ours in words; what someone wrote stays as it is."""
    found = _REASONS.get(value) or _TROUBLES.get(value)
    return found or (value.replace("_", " ") if _OURS.fullmatch(value) else value)


def trouble(value: str) -> str:
    return _TROUBLES.get(value, value)


_MEASURES = {"streak": "in a row", "count": "failed", "rate": "failed", "latency": "on average", "slow": "slow"}


def measure(value: str) -> str:
    """What a rule counts, in a word or two."""
    return _MEASURES.get(value, value)


def rule(value: str) -> str:
    return _RULES.get(value, value)


def count(value: float | None) -> str:
    """A number with thin spaces between its thousands; large ones are rounded."""
    if value is None:
        return "–"
    if value >= 10_000_000:
        return f"{value / 1_000_000:.0f} M"
    return f"{value:,.0f}".replace(",", "\N{THIN SPACE}")


def rate(value: float | None) -> str:
    if value is None:
        return "–"
    return count(value) if value >= 100 else f"{value:.1f}" if value >= 0.05 or value == 0 else f"{value:.2f}"


def share(value: float | None, digits: int = 1) -> str:
    if value is None:
        return "–"
    # What is not all of it must not look as if it were.
    text = f"{value * 100:.{digits}f}"
    if float(text) == 100 and value < 1:
        text = f"{100 - 10**-digits:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def seconds(value: float | None) -> str:
    """A duration: 8 ms, 1.4 s, 26 s, 4 min, 3 h, 12 days."""
    if value is None:
        return "–"
    if value < 0.9995:
        return f"{value * 1000:.0f} ms"
    if value < 9.95:
        return f"{value:.1f} s".replace(".0 s", " s")
    if value < 99.5:
        return f"{value:.0f} s"
    if value < 99.5 * _MINUTE:
        return f"{value / _MINUTE:.0f} min"
    if value < 47.5 * _HOUR:
        return f"{value / _HOUR:.0f} h"
    return f"{value / _DAY:.0f} days"


def instant(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def stamp(text: str | None) -> str:
    found = instant(text)
    return "" if found is None else found.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def ago(text: str | None, now: datetime | None = None) -> str:
    """How long ago, or in how long; the page's script keeps it up to date."""
    found = instant(text)
    if found is None:
        return "–"
    passed = ((now or datetime.now(UTC)) - found).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{_whole(passed)} ago" if passed > 0 else f"in {_whole(-passed)}"


def _whole(passed: float) -> str:
    return seconds(max(1.0, float(int(passed)))) if passed < 10 else seconds(passed)


def size(length: int) -> str:
    return f"{length} bytes" if length < 1024 else f"{length / 1024:.1f} KiB"


def pretty(text: str) -> str:
    """JSON with indentation, its values sign for sign; anything else as it is."""
    try:
        return msgspec.json.format(text, indent=2)
    except (msgspec.MsgspecError, RecursionError):
        return text


def plain(value: Any) -> str:
    """A value of a setting."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return "" if value is None else str(value)


def host(url: str) -> str:
    """A URL without its scheme, as it is looked for."""
    return url.partition("://")[2] or url


def breakable(text: str) -> Markup:
    """A URL or a list that goes on in the next line after one of its own signs, rather than in mid-word."""
    return Markup("<wbr>").join(_JOINT.split(text))


def action_name(name: str) -> str:
    """The name of an operation of the API as a sentence."""
    return name.replace("_", " ").capitalize()
