"""Breakers that are wrong, for the search to find: a published script, and a right machine without atomicity."""

from __future__ import annotations

import pickle
from contextlib import AbstractContextManager
from pathlib import Path

import redis

from hookfuse import State
from hookfuse.core.outcome import OK
from hookfuse.testing.redis import ServerClock
from tests.differential.linear.history import Admit, Advance, Call, Inspect, Record, Release
from tests.differential.linear.model import COOL_OFF_MS, LEASE_MS, Model

_PUBLISHED = (Path(__file__).parent / "published.lua").read_text("utf-8")


class Published:
    """The published script, each of its answers read as kindly as it can be.

    `token`: in half_open a caller must also win a key of its own, by a second command. Otherwise all of them pass.
    """

    def __init__(self, client: redis.Redis, clock: ServerClock, key: str, *, token: bool) -> None:
        self._client = client
        self._clock = clock
        self._key = key
        self._token = token
        self._run = client.register_script(_PUBLISHED)

    def perform(self, call: Call) -> object:
        match call:
            case Admit():
                state = self._event("check")
                return state is not State.OPEN and (state is State.CLOSED or not self._token or self._win())
            case Record(_, outcome):
                self._event("success" if outcome.kind is OK else "failure")
                return None
            case Release():
                self._client.delete(f"{self._key}:probe")
                return None
            case Inspect():
                stored = self._client.hget(self._key, "state")
                return State(stored.decode()) if isinstance(stored, bytes) else State.CLOSED
            case Advance(ms):
                self._clock.advance(ms / 1000)
                return None

    def _event(self, event: str) -> State:
        state = self._run(keys=[self._key], args=[self._now_ms(), event, 3, COOL_OFF_MS])
        return State(state.decode())

    def _win(self) -> bool:
        # The test's clock moves in jumps that no TTL sees, so an old token's end is kept as its value.
        end = self._client.get(f"{self._key}:probe")
        if isinstance(end, bytes) and self._now_ms() >= int(end):
            self._client.delete(f"{self._key}:probe")
        return bool(self._client.set(f"{self._key}:probe", self._now_ms() + LEASE_MS, nx=True))

    def _now_ms(self) -> int:
        return round(self._clock.now() * 1000)


class Apart:
    """The machine itself, but a step reads, decides and writes apart; `lock` may hold the three together."""

    def __init__(self, client: redis.Redis, key: str, lock: AbstractContextManager[object]) -> None:
        self._client = client
        self._key = key
        self._lock = lock

    def begin(self, model: Model) -> None:
        self._client.set(self._key, pickle.dumps(model))

    def perform(self, call: Call) -> object:
        with self._lock:
            stored = self._client.get(self._key)
            assert isinstance(stored, bytes)
            model: Model = pickle.loads(stored)
            try:
                after, result = model.apply(call)
            except KeyError:
                # Another client's write has undone the admission that this call settles.
                return None
            self._client.set(self._key, pickle.dumps(after))
            return result
