"""Whether the fault is ours: when nearly everyone fails at once without an answer, it is hardly all of them.

A suspicion is raised when at least 20 endpoints were tried in the last seconds and 95 % of them failed before a
response. While it lasts such failures count against nobody. One response ends it.
"""

from __future__ import annotations

from collections.abc import Callable

from hookfuse.core.sending import SendResult

_ENDPOINTS = 20
_SHARE = 0.95
_HALF = 2.5


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
        if now - self._began >= _HALF:
            self._older = self._newer if now - self._began < 2 * _HALF else {}
            self._newer = {}
            self._began = now
        mute = result.status is None
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
