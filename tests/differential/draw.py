"""Random histories. What comes next is drawn from what the machine holds, and time from the edges of its rules.

Every duration after which a breaker is forgotten is twenty seconds or more: the scripts also set the key's real
time to live, which runs on the server's own clock while these histories fly by.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hookfuse.core.bounds import DAY
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import AnyOf, Count, Latency, Rate, Rule, Slow, Streak
from hookfuse.core.state import CLOSED, HALF_OPEN, NOT_FORCED, Breaker, Order
from hookfuse.core.window import Counts
from tests.differential.expected import Machine
from tests.differential.history import KEYS, Action, Admit, Evaluate, Force, History, Moment, Oks, Record, Release

_MOMENTS, _BATCHES = 40, 13
_START_MS = 1_700_000_000_000
_FARTHEST_MS = 400 * 86_400_000
_WINDOWS = (None, 20.0, 60.0, 61.003, 3600.0)
_ERRORS = ("503", None, "", ValueError("two\nlines"), OSError("caf\u00e9 \u2028 {x}"), "long " * 60)
_REASONS = ("", "maintenance", "probe_failed", 'a {b} "c" / d\u00e9')


def draw_history(seed: int, *, batched: bool = False) -> History:
    return Draw(Random(seed), batched).history()


def draw_policy(r: Random) -> Policy:
    share = r.choice((0.07, 0.3, 1 / 3, 0.5, 1.0))
    least = r.randint(1, 4)
    over = r.choice((0.1, 0.2505))
    kinds: list[Rule] = [
        Streak(r.randint(1, 5)),
        Streak(r.randint(2, 4)),
        Count(r.randint(1, 4)),
        Count(r.randint(2, 4), success_clears=True),
        Rate(share, r.randint(1, 8)),
        Rate(r.choice((0.2, 0.4, 0.75)), r.randint(3, 8)),
        Latency(r.choice((0.1, 0.333)), least),
        Slow(share, over, least),
        Slow(r.choice((0.5, 0.6)), over, r.randint(1, 3)),
    ]
    rules = r.sample(kinds, r.choice((1, 1, 2, 3)))
    window = r.choice(_WINDOWS)
    cool_off = r.choice((0.001, 1.0, 7.777, 30.0, 120.0))
    longest = r.choice((None, max(cool_off, 10.0), max(cool_off * 2.5, 10.0)))
    needed = max(20.0, window or 0.0, cool_off, longest or 0.0)
    return Policy(
        trip=AnyOf(tuple(rules)),
        window=window,
        cool_off=cool_off,
        cool_off_factor=r.choice((1.0, 1.0, 1.5, 2.0, 10.0)),
        cool_off_max=longest,
        jitter=r.choice((0.0, 0.0, 0.1, 0.5)),
        probes=r.randint(1, 3),
        probe_lease=r.choice((0.01, 5.0, 60.0)),
        close_after=r.randint(1, 3),
        close_rate=r.choice((None, None, 0.5, 0.8, 1.0)),
        ramp=r.choice((0.0, 0.0, 10.0, 100.0)),
        disable_after=r.choice((None, None, 1, 2, 3)),
        reenable_after=r.choice((None, 0.001, 50.0, 5000.0)),
        forget_after=r.choice((needed, needed * 3, 30 * DAY)),
        evaluate=r.choice(("inline", "inline", "inline", "sampled")),
        sample_every=1.0,
        mode=r.choice(("enforce", "enforce", "enforce", "shadow")),
    )


class Draw:
    """One history in the making."""

    def __init__(self, r: Random, batched: bool) -> None:
        self.r = r
        self.batched = batched
        self.machine = Machine()
        self.now_ms = _START_MS
        self.policies = {key: draw_policy(r) for key in KEYS}
        if batched and r.random() < 0.5:
            # Only a rate can be reached by a success, which is what a run of them must not jump over.
            rate = Rate(r.choice((0.2, 0.4)), r.randint(3, 8))
            self.policies[KEYS[0]] = replace(self.policies[KEYS[0]], trip=rate, evaluate="inline")
        self.fails = r.choice((0.3, 0.5, 0.8))
        self.granted: list[str] = []
        self.tokens = 0

    def history(self) -> History:
        length = _BATCHES if self.batched else _MOMENTS
        change_at = self.r.choice((None, self.r.randrange(length)))
        moments = []
        for nth in range(length):
            if nth == change_at:
                self.policies = {key: self._changed(policy) for key, policy in self.policies.items()}
            self._pass_time()
            moments.append(self._moment())
        return tuple(moments)

    def _changed(self, policy: Policy) -> Policy:
        r = self.r
        if r.random() < 0.5:
            return draw_policy(r)
        return replace(policy, window=r.choice(_WINDOWS), forget_after=30 * DAY, probes=r.randint(1, 3))

    def _moment(self) -> Moment:
        batch = self.batched and self.r.random() < 0.8
        swept = self.r.random() < 0.8
        if swept:
            self.machine.sweep(self.now_ms)
        judges = batch and self.r.random() < 0.2
        actions = []
        for _ in range(self.r.randint(2, 12) if batch else 1):
            # The machine takes each as it is drawn, so that the next can be about what this one did.
            action = self._sample() if judges else self._action(batch)
            decision = self.machine.apply(action, self.policies[action.key], self.now_ms)
            if isinstance(action, Admit) and decision.answer["probe"]:
                self.granted.append(action.token)
            actions.append(action)
        return Moment(self.now_ms, dict(self.policies), tuple(actions), swept, batch)

    def _action(self, batch: bool) -> Action:
        r = self.r
        key = KEYS[r.random() < 0.3]
        breaker = self.machine.find(key, self.now_ms) or Breaker(key, self.policies[key].bucket_ms)
        verbs = {"record": 45, "admit": 30, "release": 5, "force": 8, "evaluate": 7}
        if breaker.override is not NOT_FORCED:
            verbs |= {"force": 30}
        elif breaker.state is not CLOSED:
            verbs |= {"admit": 45}
        if batch:
            verbs = {"record": 45, "oks": 25, "admit": 25, "release": 5}
        verb = r.choices(list(verbs), list(verbs.values()))[0]
        match verb:
            case "admit":
                self.tokens += 1
                return Admit(key, f"t{self.tokens}")
            case "record":
                return self._record(key, breaker)
            case "oks":
                latency_ms = r.choice((None, 0, r.randint(1, 2000)))
                return Oks(key, self._generation(breaker), r.randint(1, 5), latency_ms, r.random())
            case "release":
                return Release(key, self._token(breaker) or "")
            case "force":
                return self._force(key, breaker)
            case _:
                return self._evaluate(key, breaker)

    def _record(self, key: str, breaker: Breaker) -> Record:
        r = self.r
        throttled = Outcome.throttled(r.choice((1.0, 30.0, 3600.0)))
        shares = (self.fails, 1 - self.fails, 0.08, 0.06)
        outcome = r.choices((Outcome.FAILURE, Outcome.OK, throttled, Outcome.IGNORED), shares)[0]
        token = self._token(breaker) if breaker.state is HALF_OPEN or r.random() < 0.1 else None
        error = r.choice(_ERRORS) if outcome is Outcome.FAILURE else None
        return Record(key, outcome, self._generation(breaker), token, self._latency_ms(key), error, r.random())

    def _force(self, key: str, breaker: Breaker) -> Force:
        r = self.r
        order = r.choice(list(Order))
        if breaker.override is not NOT_FORCED and r.random() < 0.5:
            order = Order.UNFORCE
        until_ms = None
        if order in (Order.FORCE_OPEN, Order.FORCE_CLOSED):
            until_ms = r.choice((None, *(self.now_ms + wait for wait in (-1, 0, 1, 1000, 60_000, 7_200_000))))
        return Force(key, order, r.choice(_REASONS), until_ms, r.choice(("operator", "anna")))

    def _evaluate(self, key: str, breaker: Breaker) -> Evaluate:
        r = self.r
        return Evaluate(key, self._tally(key) if r.random() < 0.6 else None, r.random())

    def _sample(self) -> Evaluate:
        key = self.r.choice(KEYS)
        breaker = self.machine.find(key, self.now_ms) or Breaker(key, self.policies[key].bucket_ms)
        own = breaker.generation
        generation = self.r.choice((None, own, own, own, max(own - 1, 0), 0))
        return Evaluate(key, self._tally(key), self.r.random(), generation)

    def _tally(self, key: str) -> Counts:
        r = self.r
        ok, failed = r.choice((0, r.randint(0, 5))), r.randint(0, 5)
        timed = r.randint(0, ok + failed)
        latency_ms = timed * (self._latency_ms(key) or 0)
        return Counts(ok, failed, r.randint(0, timed), timed, latency_ms)

    def _generation(self, breaker: Breaker) -> int:
        last, own = self.machine.sequence.last, breaker.generation
        choices = (last, own, max(own - 1, 0), 0, last + 1, last + 10**9)
        return self.r.choices(choices, (75, 8, 8, 3, 3, 3))[0]

    def _token(self, breaker: Breaker) -> str | None:
        r = self.r
        if breaker.leases and r.random() < 0.75:
            return r.choice(list(breaker.leases))
        return r.choice((None, "wrong", *self.granted[-4:]))

    def _latency_ms(self, key: str) -> int | None:
        policy = self.policies[key]
        if self.r.random() < 0.3:
            return None
        if not policy.judges_latency:
            return self.r.randint(0, 400)
        edge = self.r.choice((policy.limit_ms, min(policy.slow_ms, 400)))
        return self.r.choice((0, 1, edge - 1, edge, edge + 1, 2 * edge))

    def _pass_time(self) -> None:
        r = self.r
        chance = r.random()
        if chance < 0.42:
            return
        if chance < 0.5:
            self.now_ms += r.choice((1, r.randint(1, 30_000)))
            return
        # Mostly the near future, where breakers still know something; at times back, at times past all.
        edges = sorted(edge + r.choice((-1, 0, 0, 1)) for edge in self._edges())
        behind = [edge for edge in edges if self.now_ms - 7_300_000 < edge < self.now_ms]
        ahead = [edge for edge in edges if self.now_ms < edge < self.now_ms + _FARTHEST_MS]
        if behind and (chance < 0.58 or not ahead):
            self.now_ms = r.choice(behind)
        elif ahead:
            near = [edge for edge in ahead if edge < self.now_ms + 4_000_000] or ahead
            self.now_ms = r.choice(ahead) if chance > 0.93 else r.choice(near)

    def _edges(self) -> list[int]:
        """The instants at which something may come to be different; one that takes long to come up is there often."""
        edges: set[int] = set()
        rare: list[int] = []
        for key, breaker in self.machine.breakers.items():
            policy = self.policies[key]
            changed_ms = breaker.changed_ms
            edges |= {changed_ms, changed_ms + policy.ramp_ms, breaker.expires_ms}
            edges |= {breaker.probe_ms or 0, breaker.override_until_ms or 0, *breaker.leases.values()}
            edges |= {breaker.held_ms, breaker.hold_ms}
            if breaker.state is CLOSED and breaker.trips:
                rare += 6 * [changed_ms + policy.healthy_ms]
            for start_ms, *_ in breaker.window.buckets():
                edges |= {start_ms, start_ms + policy.bucket_ms, start_ms + policy.window_ms}
        return [*edges, *rare]
