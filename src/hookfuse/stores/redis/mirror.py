"""What this process knows of the breakers of all shards, so that a healthy call asks nobody.

A mirror holds only breakers that are not plainly closed. It is loaded from the shards' indexes and then follows their
streams; a key that is not in it is closed. It answers for itself as long as it is fresh: loaded, and heard of within
`max_staleness`. Whatever only the store may decide (a probe) it does not answer.

Nothing here does I/O. Events of a stream come in order, so a shard's `position` is the newest generation of which
this process has applied everything before it: that is what admissions carry. Replies to our own commands may run
ahead of the stream; `_ahead` remembers them until it has caught up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from zlib import crc32

from hookfuse.core.admission import Admission, Denial
from hookfuse.core.bounds import milliseconds
from hookfuse.core.keys import KEY_BYTES
from hookfuse.core.policy import Policy
from hookfuse.core.state import CLOSED, DISABLED, FORCED_CLOSED, FORCED_OPEN, NOT_FORCED, OPEN, explain, ramp_share
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.wire import News


class Mirror:
    """Safe to use from several threads: what changes it holds a lock, what reads it needs none."""

    def __init__(
        self, keys: Keys, *, max_staleness: float = 2.0, server_clock: Callable[[], float] | None = None
    ) -> None:
        self._keys = keys
        self._max_staleness = max_staleness
        self._server_clock = server_clock or self._estimate
        self._entries: dict[str, News] = {}
        self._ahead: dict[str, int] = {}
        self._doubted: set[str] = set()
        self._offset = 0.0
        self._fresh_until = [0.0] * keys.shards
        self._changing = threading.Lock()
        self.positions = [0] * keys.shards

    @property
    def fresh(self) -> bool:
        """Whether it may answer for all shards."""
        return monotonic() < min(self._fresh_until)

    def fresh_for(self, key: str) -> bool:
        """Whether it may answer for this key: where one server of several is away, the others' shards are fresh."""
        return monotonic() < self._fresh_until[self._keys.shard(key)]

    def heard(self, now_ms: int | None, asked: float, shards: Iterable[int] | None = None) -> None:
        """These shards (None: all) have been heard of; a store that was asked for the time at `asked` said `now_ms`.

        Its answer may have waited behind a blocking read, so the time is counted from the question: our idea of the
        server's clock is then ahead by the way there, and never behind, which would refuse longer than configured.
        """
        self._trust(shards, monotonic() + self._max_staleness)
        if now_ms is not None:
            self._offset = now_ms / 1000 - asked

    def _estimate(self) -> float:
        # Monotonic time and an offset taken from replies: this machine's own clock may be wrong.
        return monotonic() + self._offset

    def distrust(self, shards: Iterable[int] | None = None) -> None:
        """Answer nothing for these shards (None: all) until they have been heard of again."""
        self._trust(shards, 0.0)

    def _trust(self, shards: Iterable[int] | None, until: float) -> None:
        for shard in range(self._keys.shards) if shards is None else shards:
            self._fresh_until[shard] = until

    def doubt(self, key: str) -> None:
        """Call this key healthy no more: this process has learned something that the store has not."""
        self._doubted.add(key)

    def trust(self, key: str) -> None:
        self._doubted.discard(key)

    def load(self, positions: Mapping[int, int], entries: Iterable[News]) -> None:
        """Start these shards anew from their indexes, which were read after the positions."""
        shard = self._keys.shard
        with self._changing:
            for loaded, position in positions.items():
                self.positions[loaded] = position
            kept = {key: news for key, news in self._entries.items() if shard(key) not in positions}
            self._entries = kept | {news.key: news for news in entries}
            self._ahead = {key: ahead for key, ahead in self._ahead.items() if shard(key) not in positions}

    def follow(self, shard: int, generation: int, news: News) -> bool:
        """Apply an event of a shard's stream; False if it is an old one."""
        with self._changing:
            self.positions[shard] = max(self.positions[shard], generation)
            ahead = self._ahead.get(news.key)
            if ahead is not None and generation < ahead:
                return False
            self._ahead.pop(news.key, None)
            self._apply(news)
            return True

    def learn(self, news: News) -> None:
        """Apply what a reply to our own command says, before its event arrives."""
        with self._changing:
            if news.generation > self.positions[self._keys.shard(news.key)]:
                self._ahead[news.key] = max(news.generation, self._ahead.get(news.key, 0))
            self._apply(news)

    def _apply(self, news: News) -> None:
        known = self._entries.get(news.key)
        if known is not None and known.generation > news.generation:
            return
        if news.plain:
            self._entries.pop(news.key, None)
        else:
            self._entries[news.key] = news

    def generation(self, key: str) -> int:
        position = self.positions[self._keys.shard(key)]
        return max(position, self._ahead.get(key, 0)) if self._ahead else position

    def healthy(self, key: str) -> int | None:
        # Runs before every call, so `fresh_for` and `generation` are written out.
        try:
            name = key.encode()
        except (AttributeError, UnicodeEncodeError):
            return None
        shard = crc32(name) % self._keys.shards
        if not name or len(name) > KEY_BYTES or monotonic() >= self._fresh_until[shard]:
            return None
        if key in self._entries or key in self._doubted:
            return None
        position = self.positions[shard]
        return max(position, self._ahead.get(key, 0)) if self._ahead else position

    def answer(self, key: str, policy: Policy) -> Admission | None:
        """The answer, if this process may give it; None: ask the store."""
        return self._answer(key, policy) if self.fresh_for(key) else None

    def last_known(self, key: str, policy: Policy) -> Admission:
        """The answer by what was last heard, however long ago; a probe that is due is refused until now."""
        known = self._answer(key, policy, asking_is_possible=False)
        if known is not None:
            return known
        now_ms = milliseconds(self._server_clock())
        news = self._entries.get(key) or News(key, 0)
        return _refuse(key, policy, self.generation(key), now_ms, news, Denial.OPEN, now_ms)

    def _answer(self, key: str, policy: Policy, *, asking_is_possible: bool = True) -> Admission | None:
        generation = self.generation(key)
        news = self._entries.get(key)
        if news is None:
            return Admission(key, policy, generation)
        now_ms = milliseconds(self._server_clock())
        forced = news.override is not NOT_FORCED
        if forced and news.override_until_ms is not None and now_ms >= news.override_until_ms:
            return None
        if news.override is FORCED_OPEN:
            refused = _refuse(key, policy, generation, now_ms, news, Denial.FORCED_OPEN, news.override_until_ms)
            refused.why = news.override_reason
            return refused
        if news.override is FORCED_CLOSED:
            return Admission(key, policy, generation)
        if not policy.enforced or (asking_is_possible and max(news.changed_ms, news.held_ms) > now_ms):
            # In the future: the server's clock went back, or our idea of it is a little behind.
            return None
        if news.state is CLOSED:
            return self._answer_closed(key, policy, generation, now_ms, news)
        if news.state is OPEN and news.probe_ms is not None and now_ms < news.probe_ms:
            return _refuse(key, policy, generation, now_ms, news, Denial.OPEN, news.probe_ms)
        if news.state is DISABLED and (news.probe_ms is None or now_ms < news.probe_ms):
            return _refuse(key, policy, generation, now_ms, news, Denial.DISABLED, news.probe_ms)
        return None

    def _answer_closed(self, key: str, policy: Policy, generation: int, now_ms: int, news: News) -> Admission:
        if news.held_ms <= now_ms < news.hold_ms:
            return _refuse(key, policy, generation, now_ms, news, Denial.THROTTLED, news.hold_ms)
        admission = Admission(key, policy, generation)
        admission.at_ms = now_ms
        admission.share = ramp_share(now_ms - news.changed_ms, policy.ramp_ms)
        if admission.share == 1:
            # Held no longer and grown to full: it is plainly closed, and nobody need say so.
            with self._changing:
                if self._entries.get(key) is news:
                    del self._entries[key]
        return admission


def _refuse(
    key: str, policy: Policy, generation: int, now_ms: int, news: News, denial: Denial, until_ms: int | None
) -> Admission:
    admission = Admission(key, policy, generation)
    admission.allowed = False
    admission.at_ms = now_ms
    admission.state = news.state
    admission.reason = denial
    admission.wait_ms = None if until_ms is None else until_ms - now_ms
    admission.why = explain(news.reason, news.numbers)
    return admission
