"""Whether the fault is ours: when nearly everyone fails at once without an answer, it is hardly all of them.

A suspicion is raised when at least 20 endpoints were tried in the last seconds and 95 % of them failed before a
response. While it lasts such failures count against nobody. One response ends it. What never set out says nothing
about the network, and neither does an answer that makes no sense.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from hookfuse.core.sending import SendResult, Trouble

_ENDPOINTS = 20
_SHARE = 0.95
_HALF = 2.5
# Who meets a stranger's certificate everywhere has something in between that opens the connections.
_OF_THE_NETWORK: Final = frozenset(
    (Trouble.DNS, Trouble.CONNECT, Trouble.TLS, Trouble.TIMEOUT, Trouble.DISCONNECTED, Trouble.LOCAL)
)


class EgressWatch:
    """Sees every result of this process; `told` hears of each change."""

    def __init__(self, told: Callable[[bool], None] = lambda suspect: None) -> None:
        self.suspect = False
        self._told = told
        # Two halves of the five seconds, each with the last result of its endpoints (True: no response).
        self._older: dict[str, bool] = {}
        self._newer: dict[str, bool] = {}
        self._began = 0.0

    def saw(self, endpoint_id: str, result: SendResult, now: float) -> bool:
        """Note a result; returns whether it is to be blamed on ourselves. `now` is monotonic seconds."""
        mute = result.status is None
        if mute and not _is_evidence(result):
            return False
        if now - self._began >= _HALF:
            self._older = self._newer if now - self._began < 2 * _HALF else {}
            self._newer = {}
            self._began = now
        if not mute and self.suspect:
            # A new suspicion needs new evidence.
            self._older, self._newer = {}, {}
            self._change(False)
        self._newer[endpoint_id] = mute
        if not mute:
            return False
        if not self.suspect and len(self._newer) + len(self._older) >= _ENDPOINTS:
            last = {**self._older, **self._newer}
            self._change(len(last) >= _ENDPOINTS and sum(last.values()) >= _SHARE * len(last))
        return self.suspect

    def _change(self, suspect: bool) -> None:
        if suspect is not self.suspect:
            self.suspect = suspect
            self._told(suspect)


def _is_evidence(result: SendResult) -> bool:
    """Whether a result without a response says anything about the network."""
    if result.trouble is Trouble.LOCAL and not result.latency:
        return False  # settings or a secret that cannot be read: nothing was tried
    return result.trouble in _OF_THE_NETWORK
