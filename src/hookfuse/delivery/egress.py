"""Whether the fault is ours: when nearly everyone fails at once without an answer, it is hardly all of them.

A suspicion is raised when at least 20 endpoints were tried in the last five seconds and 95 % of them failed before a
response. While it lasts such failures count against nobody. One response ends it. What never set out says nothing
about the network, and neither does an answer that makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hookfuse.core.sending import SendResult, Trouble

_ENDPOINTS = 20
_PERCENT = 95
_SECONDS = 5.0
# Who meets a stranger's certificate everywhere has something in between that opens the connections.
_OF_THE_NETWORK: Final = frozenset(
    (Trouble.DNS, Trouble.CONNECT, Trouble.TLS, Trouble.TIMEOUT, Trouble.DISCONNECTED, Trouble.LOCAL)
)


class EgressWatch:
    """Sees every result of this process; `told` hears of each change."""

    def __init__(self, told: Callable[[bool], None] = lambda suspect: None) -> None:
        self.suspect = False
        self._told = told
        # The last result of each endpoint, the oldest first: when, and whether there was no response.
        self._last: dict[str, tuple[float, bool]] = {}
        self._mute = 0

    def saw(self, endpoint_id: str, result: SendResult, now: float) -> bool:
        """Note a result; returns whether it is to be blamed on ourselves. `now` is monotonic seconds."""
        mute = result.status is None
        if mute and not _is_evidence(result):
            return False
        if not mute and self.suspect:
            # A new suspicion needs new evidence.
            self._last.clear()
            self._mute = 0
            self._change(False)
        self._note(endpoint_id, mute, now)
        if mute and not self.suspect:
            tried = len(self._last)
            self._change(tried >= _ENDPOINTS and self._mute * 100 >= _PERCENT * tried)
        return mute and self.suspect

    def _note(self, endpoint_id: str, mute: bool, now: float) -> None:
        last = self._last
        if endpoint_id in last:
            self._mute -= last.pop(endpoint_id)[1]
        last[endpoint_id] = now, mute
        self._mute += mute
        while now - (oldest := next(iter(last.items())))[1][0] > _SECONDS:
            del last[oldest[0]]
            self._mute -= oldest[1][1]

    def _change(self, suspect: bool) -> None:
        if suspect is not self.suspect:
            self.suspect = suspect
            self._told(suspect)


def _is_evidence(result: SendResult) -> bool:
    """Whether a result without a response says anything about the network."""
    if result.trouble is Trouble.LOCAL and not result.latency:
        return False  # settings or a secret that cannot be read: nothing was tried
    return result.trouble in _OF_THE_NETWORK
