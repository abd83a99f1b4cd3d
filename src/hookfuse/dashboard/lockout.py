"""Who has guessed too often waits, longer each time.

Counted by address, or by network where one owner has many (IPv6), and over all addresses together. Of several processes
each counts for itself.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

FREE_TRIES = 5
_FIRST_WAIT = 30.0
_LONGEST_WAIT = 900.0
_FORGET_AFTER = 3_600.0
_MOST_KNOWN = 10_000
_EVERYONE = ""
_TRIES_OF_ALL = 100


@dataclass(slots=True)
class _Record:
    failures: int = 0
    until: float = 0.0
    last: float = 0.0


class Lockout:
    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def wait(self, address: str) -> float:
        """Seconds until this address may try again; 0: now."""
        now = self._now()
        waits = (record.until - now for name in (_EVERYONE, _origin(address)) if (record := self._records.get(name)))
        return max(0.0, *waits, 0.0)

    def failed(self, address: str) -> None:
        self._count(_origin(address), FREE_TRIES)
        self._count(_EVERYONE, _TRIES_OF_ALL)

    def succeeded(self, address: str) -> None:
        self._records.pop(_origin(address), None)

    def _count(self, name: str, free: int) -> None:
        now = self._now()
        record = self._records.setdefault(name, _Record())
        if now - record.last > _FORGET_AFTER:
            record.failures = 0
        record.failures += 1
        record.last = now
        if record.failures >= free:
            record.until = now + min(_FIRST_WAIT * 2 ** min(record.failures - free, 10), _LONGEST_WAIT)
        self._records.move_to_end(name)
        if len(self._records) > _MOST_KNOWN:
            self._records.popitem(last=False)


def _origin(address: str) -> str:
    try:
        found = ip_address(address)
    except ValueError:
        return address or "unknown"
    return str(found) if found.version == 4 else str(ip_network((found, 64), strict=False))
