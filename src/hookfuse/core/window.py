"""What happened lately: counts over a sliding window, in constant memory and constant time."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import NamedTuple, Self

BUCKETS = 10
"""Buckets per window. The error of the window is one bucket: a tenth of its length."""

FOREVER_MS = 1 << 52
"""Longer than any clock; still exact in a double, which is all that Lua has."""

_FIELDS = 6


class Counts(NamedTuple):
    """Outcomes of calls. `timed` says how many of them came with a latency."""

    ok: int = 0
    failed: int = 0
    slow: int = 0
    timed: int = 0
    latency_ms: int = 0

    @property
    def calls(self) -> int:
        return self.ok + self.failed

    @property
    def failure_rate(self) -> float:
        return self.failed / self.calls if self.calls else 0.0

    @property
    def mean_latency(self) -> float | None:
        """Seconds, or None when no call was timed."""
        return self.latency_ms / self.timed / 1000 if self.timed else None


class Window:
    """Outcomes of the last `span_ms`, in at most `BUCKETS + 1` buckets and their running totals.

    A bucket begins with the first outcome that no bucket covers (not at a round time), is `width_ms` wide,
    and is dropped whole once its beginning is older than the span. So for an outcome of age `a`:

    - `a > span`: never counted;
    - `a <= span - width`: always counted;
    - between: counted until the first outcome of its bucket leaves, at most one width early.

    Outcomes that are further apart than one width each begin a bucket, so for them the window is exact.
    """

    __slots__ = (
        "failed",
        "latency_ms",
        "ok",
        "past",
        "past_failed",
        "past_latency_ms",
        "past_ok",
        "past_slow",
        "past_timed",
        "quick",
        "quick_ever",
        "slow",
        "start_ms",
        "timed",
        "until_ms",
        "width_ms",
    )

    def __init__(self, width_ms: int) -> None:
        self.width_ms = width_ms
        # Timed successes of the newest bucket that the hot path counted; and all it ever counted, but for these.
        self.quick = self.quick_ever = 0
        self.clear()

    @classmethod
    def load(cls, width_ms: int, buckets: Iterable[tuple[int, ...]]) -> Self:
        """The window that `buckets()` described."""
        window = cls(width_ms)
        for bucket in buckets:
            window._begin(*bucket)
        return window

    def clear(self) -> None:
        self.quick_ever += self.quick
        self.quick = 0
        # The newest bucket, if until_ms is set; then the sealed ones, flat, six numbers each, oldest first.
        self.start_ms = self.until_ms = 0
        self.ok = self.failed = self.slow = self.timed = 0
        self.latency_ms: float = 0
        self.past: array[int] | None = None
        self.past_ok = self.past_failed = self.past_slow = self.past_timed = self.past_latency_ms = 0

    @property
    def span_ms(self) -> int:
        """How far it looks back, by the width of its buckets."""
        return min(self.width_ms * BUCKETS, FOREVER_MS)

    @property
    def quick_total(self) -> int:
        """All that the hot path ever counted here."""
        return self.quick_ever + self.quick

    @property
    def has_failed(self) -> bool:
        return self.past_failed + self.failed > 0

    @property
    def oldest_ms(self) -> int:
        """Where the oldest bucket begins; of an empty window, 0."""
        return self.past[0] if self.past else self.start_ms

    def counts(self) -> Counts:
        """The totals as of the last `slide`."""
        quick = self.quick
        # Half the time of calling Counts; every failure is judged by one.
        return tuple.__new__(
            Counts,
            (
                self.past_ok + self.ok + quick,
                self.past_failed + self.failed,
                self.past_slow + self.slow,
                self.past_timed + self.timed + quick,
                self.past_latency_ms + self._latency_ms(),
            ),
        )

    def counts_at(self, now_ms: int, width_ms: int, span_ms: int) -> Counts:
        """The totals as `slide` would leave them; looking changes nothing."""
        copy = Window.load(self.width_ms, self.buckets())
        copy.slide(now_ms, width_ms, span_ms)
        return copy.counts()

    def buckets(self) -> list[tuple[int, ...]]:
        """Each bucket as (start_ms, ok, failed, slow, timed, latency_ms), oldest first."""
        flat = list(self.past or ())
        rows = [tuple(flat[at : at + _FIELDS]) for at in range(0, len(flat), _FIELDS)]
        return [*rows, self._newest()] if self.until_ms else rows

    def slide(self, now_ms: int, width_ms: int, span_ms: int) -> None:
        """Drop what is too old, what lies in the future (the clock went back), or has another width."""
        if width_ms != self.width_ms:
            self.width_ms = width_ms
            self.clear()
        elif self.start_ms > now_ms:
            kept = [bucket for bucket in self.buckets() if bucket[0] <= now_ms]
            self.clear()
            for bucket in kept:
                self._begin(*bucket)
        oldest_ms = now_ms - span_ms
        past = self.past
        while past and past[0] < oldest_ms:
            self.past_ok -= past[1]
            self.past_failed -= past[2]
            self.past_slow -= past[3]
            self.past_timed -= past[4]
            self.past_latency_ms -= past[5]
            del past[:_FIELDS]
        if self.until_ms and self.start_ms < oldest_ms:
            self.clear()

    def add(self, now_ms: int, *, failed: bool, slow: bool, latency_ms: int | None) -> None:
        """Count one outcome at `now_ms`; call `slide` first."""
        if now_ms >= self.until_ms:
            self._begin(now_ms)
        if failed:
            self.failed += 1
        else:
            self.ok += 1
        if latency_ms is not None:
            self.timed += 1
            self.latency_ms += latency_ms
            self.slow += slow

    def _begin(
        self, start_ms: int, ok: int = 0, failed: int = 0, slow: int = 0, timed: int = 0, latency_ms: int = 0
    ) -> None:
        """Seal the newest bucket, if there is one, and begin another."""
        if self.until_ms:
            if self.past is None:
                self.past = array("q")
            self.past.extend(self._newest())
            self.past_ok += self.ok + self.quick
            self.past_failed += self.failed
            self.past_slow += self.slow
            self.past_timed += self.timed + self.quick
            self.past_latency_ms += self._latency_ms()
            self.quick_ever += self.quick
            self.quick = 0
        self.start_ms = start_ms
        self.until_ms = start_ms + self.width_ms
        self.ok, self.failed, self.slow, self.timed, self.latency_ms = ok, failed, slow, timed, latency_ms

    def _latency_ms(self) -> int:
        # Summed as it comes, in fractions, and made whole once: rounding each would cost the hot path more.
        whole = int(self.latency_ms + 0.5)
        return whole if whole > 0 else 0

    def _newest(self) -> tuple[int, ...]:
        ok, timed = self.ok + self.quick, self.timed + self.quick
        return (self.start_ms, ok, self.failed, self.slow, timed, self._latency_ms())
