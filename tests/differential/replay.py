"""Runs a history through the real scripts on a real server, and finds the first thing that is not as expected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import redis

from hookfuse.core.admission import Admission
from hookfuse.core.policy import Policy
from hookfuse.core.sample import Sample
from hookfuse.core.state import Breaker, snapshot
from hookfuse.core.window import FOREVER_MS, Counts
from hookfuse.stores.redis.commands import Call, Command, Commands
from hookfuse.stores.redis.keys import Keys
from hookfuse.stores.redis.scripts import Includes, script
from hookfuse.stores.redis.wire import read_admission, read_breaker, read_event, read_news, read_reply, read_window
from tests.differential.expected import Decision, Event, Machine, Seen, read_answer, twin
from tests.differential.history import (
    KEYS,
    Action,
    Admit,
    Evaluate,
    Force,
    History,
    Moment,
    Oks,
    Record,
    Release,
    told,
)

HISTORIES = int(os.environ.get("HOOKFUSE_DIFFERENTIAL_HISTORIES", "300"))
SEED = os.environ.get("HOOKFUSE_DIFFERENTIAL_SEED")

NOW = """
local function clock_ms()
  return tonumber(redis.call('GET', string.match(KEYS[1], '^.-:v1:') .. 'now'))
end
"""
FAILED = "the script failed"
_VERBS = ("admit", "record", "release", "force", "evaluate", "batch", "judge")
_FENCE = 7


class Difference(NamedTuple):
    """Where the scripts leave the machine."""

    moment: int
    what: str


class Held(NamedTuple):
    """What the server held after a call, and what it should have."""

    expected: Seen
    hashes: dict[str, dict[bytes, bytes]]
    unhealthy: dict[bytes, bytes]


def seeds() -> Sequence[int]:
    return range(HISTORIES) if SEED is None else [int(SEED)]


class Scripts:
    """The scripts on a server whose time is a key, with includes swapped as a test wants them."""

    def __init__(self, client: redis.Redis, swapped: Includes = ()) -> None:
        self._client = client
        includes = (("now", NOW), *swapped)
        self._shas = {}
        for verb in _VERBS:
            found = script(verb, includes)
            client.script_load(found.source)
            self._shas[verb] = found.sha
        self._runs = 0

    def first_difference(self, histories: Callable[[int], History]) -> str | None:
        """Run the history of each seed until one differs; that one is told with all that is not needed left out."""
        for seed in seeds():
            history = histories(seed)
            difference = self.replay(history)
            if difference is not None:
                shortest, difference = self.shorten(history, difference)
                replay = f"HOOKFUSE_DIFFERENTIAL_SEED={seed}"
                return f"{replay}\n{told(shortest)}\n{difference.what}"
        return None

    def shorten(self, history: History, difference: Difference) -> tuple[History, Difference]:
        """Leave out one action after the other for as long as something still differs."""
        history = history[: difference.moment + 1]
        again = True
        while again:
            again = False
            for shorter in _shorter(history):
                found = self.replay(shorter)
                if found is not None:
                    history, difference, again = shorter[: found.moment + 1], found, True
                    break
        return history, difference

    def replay(self, history: History) -> Difference | None:
        self._runs += 1
        prefix = f"run{self._runs}"
        keys = Keys(prefix, 1)
        machine, commands = Machine(), Commands(keys)
        expected = [machine.run(moment) for moment in history]
        pipeline = self._client.pipeline(transaction=False)
        for moment, seen in zip(history, expected, strict=True):
            pipeline.set(f"{prefix}:v1:now", moment.now_ms)
            pipeline.delete("nothing", *(keys.breaker(0, key) for key in seen.forgotten))
            call = _call(commands, moment)
            pipeline.evalsha(self._shas[call.script], len(call.keys), *call.keys, *call.args)
            for key in KEYS:
                pipeline.hgetall(keys.breaker(0, key))
            pipeline.hgetall(keys.index(0))
        for key in KEYS:
            pipeline.pttl(keys.breaker(0, key))
        pipeline.get(keys.head(0)[0])
        pipeline.xrange(keys.stream(0))
        pipeline.keys(f"{prefix}:*")
        replies = iter(pipeline.execute(raise_on_error=False))
        before = None
        for nth, (moment, seen) in enumerate(zip(history, expected, strict=True)):
            _, _, reply, first, second, index = (next(replies) for _ in range(6))
            after = Held(seen, {KEYS[0]: first, KEYS[1]: second}, index)
            what = _compare_decisions(moment, seen, reply) or _compare_held(moment, before, after)
            if what is not None:
                return Difference(nth, what)
            before = after
        fenced = any(_judges(moment) for moment in history)
        what = _compare_rest(machine, keys, list(replies), fenced)
        return None if what is None else Difference(len(history) - 1, what)


def _shorter(history: History) -> Iterator[History]:
    for nth, moment in enumerate(history):
        head, tail = history[:nth], history[nth + 1 :]
        if head or tail:
            yield (*head, *tail)
        if len(moment.actions) > 1:
            for at in range(len(moment.actions)):
                fewer = (*moment.actions[:at], *moment.actions[at + 1 :])
                yield (*head, replace(moment, actions=fewer), *tail)


def _call(commands: Commands, moment: Moment) -> Call:
    if _judges(moment):
        return _judgement(commands, moment)
    made = [_command(commands, action, moment.policies[action.key]) for action in moment.actions]
    if moment.batch:
        (call,) = commands.batches(made)
        return call
    return commands.alone(made[0])


def _judges(moment: Moment) -> bool:
    return moment.batch and any(isinstance(action, Evaluate) for action in moment.actions)


def _judgement(commands: Commands, moment: Moment) -> Call:
    samples = [
        Sample(each.key, moment.policies[each.key], each.tally, -1 if each.generation is None else each.generation)
        for each in moment.actions
        if isinstance(each, Evaluate) and each.tally is not None
    ]
    (call,) = commands.judgements(samples, _FENCE, 0)
    args = list(call.args)
    # The draw is the third of a sample's nine.
    args[4::9] = [each.draw for each in moment.actions if isinstance(each, Evaluate)]
    return call._replace(args=args)


def _command(commands: Commands, action: Action, policy: Policy) -> Command:
    """An action as the store would send it, but with the history's own token and draw."""
    match action:
        case Admit(key, token):
            return _with(commands.admit(key, policy), 1, token)
        case Record():
            admission = Admission(action.key, policy, action.generation)
            admission.token = action.token
            latency = None if action.latency_ms is None else action.latency_ms / 1000
            return _with(commands.record(admission, action.outcome, latency, action.error), 8, action.draw)
        case Oks(key, generation, times):
            latency_ms = -1 if action.latency_ms is None else action.latency_ms
            return _with(commands.successes(key, policy, generation, times, latency_ms), 4, action.draw)
        case Release(key, token):
            admission = Admission(key, policy, 0)
            admission.token = token
            return commands.release(admission)
        case Force(key, order, reason, until_ms, actor):
            until = None if until_ms is None else until_ms / 1000
            return commands.force(key, policy, order, reason, until, actor)
        case Evaluate(key, tally):
            return _with(commands.evaluate(key, policy, tally), 1, action.draw)


def _with(command: Command, at: int, value: str | float) -> Command:
    args = list(command.args)
    args[at] = value
    return command._replace(args=args)


def _compare_decisions(moment: Moment, seen: Seen, reply: Any) -> str | None:
    if isinstance(reply, Exception):
        return f"{FAILED}: {reply}"
    replies = reply[2] if _judges(moment) else reply if moment.batch else [reply]
    for action, expected, answer in zip(moment.actions, seen.decisions, replies, strict=True):
        found = _decision(action, moment.policies[action.key], answer)
        what = _unlike(f"the decision on {action}", vars(expected), vars(found))
        if what is not None:
            return what
    return None


def _compare_held(moment: Moment, before: Held | None, after: Held) -> str | None:
    """The breakers and the index; what changed on neither side since it was last compared is the same still."""
    for key, hash_ in after.hashes.items():
        expected = after.expected.breakers.get(key)
        if before and hash_ == before.hashes[key] and expected is before.expected.breakers.get(key):
            continue
        what = _compare_breaker(key, moment, expected, hash_)
        if what is not None:
            return what
    if before and after.unhealthy == before.unhealthy and after.expected.listed == before.expected.listed:
        return None
    listed = {key.decode(): read_news(key.decode(), 0, text) for key, text in after.unhealthy.items()}
    return _unlike("the index", after.expected.listed, listed)


def _decision(action: Action, policy: Policy, reply: Sequence[Any]) -> Decision:
    read = read_reply(action.key, reply)
    answer: dict[str, object] = {}
    if isinstance(action, Admit):
        answer = read_answer(read_admission(action.key, policy, action.token, read.answer))
    elif isinstance(action, Force) and read.answer:
        answer = {"refused at": int(read.answer[0])}
    return Decision(read.transitions, read.news, answer)


def _compare_breaker(key: str, moment: Moment, expected: Breaker | None, hash_: dict[bytes, bytes]) -> str | None:
    what = _unlike(f"whether {key!r} is kept", expected is not None, bool(hash_))
    if what is not None or expected is None:
        return what
    what = _compare_totals(key, hash_.get(b"window"))
    if what is not None:
        return what
    policy, now_ms = moment.policies[key], moment.now_ms
    found = read_breaker(key, hash_, now_ms, policy)
    if now_ms >= expected.expires_ms:
        expected = Breaker(key, policy.bucket_ms)
    return _unlike(f"breaker {key!r}", _seen(twin(expected), policy, now_ms), _seen(found, policy, now_ms))


def _compare_totals(key: str, packed: bytes | None) -> str | None:
    """The running totals, which nobody reads but the scripts, against the buckets that they are of."""
    if packed is None:
        return None
    stored = read_window(packed)
    summed = Counts(*(sum(column) for column in zip(*(bucket[1:] for bucket in stored.buckets[:-1]), strict=True)))
    return _unlike(f"the totals of {key!r}", summed, stored.sealed)


def _seen(breaker: Breaker, policy: Policy, now_ms: int) -> dict[str, object]:
    """The snapshot, and what it leaves out."""
    shown = snapshot(breaker, policy, now_ms)
    fields: dict[str, object] = {name: getattr(shown, name) for name in shown.__dataclass_fields__}
    names = ("leases", "expires_ms", "held_ms", "hold_ms", "override", "override_until_ms", "override_reason", "reason")
    for name in names:
        fields[f"stored {name}"] = getattr(breaker, name)
    fields["buckets"] = breaker.window.buckets()
    return fields


def _compare_rest(machine: Machine, keys: Keys, replies: list[Any], fenced: bool) -> str | None:
    """What is left at the end: times to live, the sequence, the stream, and no key that nobody needs."""
    *ttls, sequence, stream, names = replies
    breakers = machine.breakers
    endless = {key for key, ttl in zip(KEYS, ttls, strict=True) if ttl == -1}
    events = [_event(position, fields) for position, fields in stream]
    used = (machine.sequence.last, machine.stream, machine.listed)
    needed = {keys.breaker(0, key) for key in breakers} | {keys.meta.replace("meta", "now")}
    needed |= {name for name, content in zip(keys.head(0), used, strict=True) if content}
    needed |= {keys.fence(0)} if fenced else set()
    found = {name.decode() for name in names}
    return (
        _unlike("who has no TTL", {key for key in breakers if breakers[key].expires_ms >= FOREVER_MS}, endless)
        or _unlike("the sequence", machine.sequence.last, int(sequence or 0))
        or _unlike("the stream", machine.stream, events)
        or _unlike("the keys on the server", needed, found)
    )


def _event(position: bytes, fields: dict[bytes, bytes]) -> Event:
    generation = int(position.split(b"-")[0])
    return Event(generation, *read_event(fields, generation))


def _unlike(name: str, expected: object, found: object) -> str | None:
    if expected == found:
        return None
    if isinstance(expected, dict) and isinstance(found, dict):
        for field in expected | found:
            what = _unlike(f"{name}, {field}", expected.get(field), found.get(field))
            if what is not None:
                return what
    return f"{name}\n  machine: {expected}\n  scripts: {found}"
