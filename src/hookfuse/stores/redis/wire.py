"""What crosses to the scripts and back. Numbers cross as text; nothing here does I/O, so both faces share it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from hookfuse.core.admission import Admission, Denial
from hookfuse.core.bounds import milliseconds
from hookfuse.core.outcome import FAILURE, Failure, Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.rules import Count, Latency, Numbers, Rate, Rule, Slow, Streak
from hookfuse.core.state import NO_NUMBERS, Breaker, Override, State, Transition, explain
from hookfuse.core.window import Counts, Window

Arg: TypeAlias = str | int | float

_POLICIES_KEPT = 1024
_TOTAL_SIZES = (5, 5, 5, 5, 6)
_BUCKET_SIZES = (6, 4, 4, 4, 4, 6)


class News(NamedTuple):
    """What a process needs to know of a breaker that is not plainly closed (`plain`: it is)."""

    key: str
    generation: int
    plain: bool = True
    state: State = State.CLOSED
    override: Override = Override.NONE
    override_until_ms: int | None = None
    override_reason: str = ""
    probe_ms: int | None = None
    held_ms: int = 0
    hold_ms: int = 0
    changed_ms: int = 0
    ramp_ms: int = 0
    reason: str = ""
    numbers: Numbers = NO_NUMBERS


class Reply(NamedTuple):
    transitions: tuple[Transition, ...]
    news: News | None
    answer: Sequence[bytes] = ()


class StoredWindow(NamedTuple):
    """A window as it is packed; `sealed` are the totals of all buckets but the newest, which is the last."""

    sealed: Counts
    buckets: tuple[tuple[int, ...], ...]


class PolicyTexts:
    """Policies as text, made once for each policy object."""

    def __init__(self) -> None:
        self._texts: dict[int, tuple[Policy, str]] = {}

    def of(self, policy: Policy) -> str:
        known = self._texts.get(id(policy))
        if known is not None:
            return known[1]
        if len(self._texts) >= _POLICIES_KEPT:
            self._texts.clear()
        text = policy_text(policy)
        # The policy is kept with its text, so its id cannot come to mean another one.
        self._texts[id(policy)] = (policy, text)
        return text


def policy_text(policy: Policy) -> str:
    """See policy.lua for the order."""
    words: list[object] = [
        policy.window_ms,
        policy.bucket_ms,
        policy.cool_off_ms,
        policy.cool_off_factor,
        policy.cool_off_max_ms,
        policy.jitter,
        policy.probes,
        policy.probe_lease_ms,
        policy.close_after,
        -1 if policy.close_rate is None else policy.close_rate,
        policy.ramp_ms,
        -1 if policy.disable_after is None else policy.disable_after,
        -1 if policy.reenable_ms is None else policy.reenable_ms,
        policy.forget_ms,
        policy.healthy_ms,
        policy.remember_ms,
        policy.quiet_ms,
        policy.slow_ms,
        policy.limit_ms,
        int(policy.inline),
        int(policy.enforced),
        int(policy.judges_latency),
    ]
    for rule in policy.rules:
        words += [rule.name, *_rule_numbers(rule)]
    return " ".join(repr(word) if isinstance(word, float) else str(word) for word in words)


def _rule_numbers(rule: Rule) -> tuple[float, float, float]:
    match rule:
        case Streak(n):
            return n, 0, 0
        case Count(n, success_clears):
            return n, int(success_clears), 0
        case Rate(share, min_calls):
            return share, min_calls, 0
        case Latency(mean, min_calls):
            return mean, min_calls, milliseconds(mean)
        case Slow(share, over, min_calls):
            return share, min_calls, over
        case _:
            raise TypeError(f"{rule!r} has no translation to Lua")


def report_args(
    admission: Admission, outcome: Outcome, latency: float | None, error: BaseException | str | None, draw: float
) -> list[Arg]:
    """The eight arguments of a report, as report.lua reads them."""
    latency_ms = -1 if latency is None else milliseconds(latency)
    failure = ""
    if outcome.kind is FAILURE:
        kept = Failure.of(error, 0)
        failure = json.dumps({"type": kept.type, "message": kept.message}, ensure_ascii=False, separators=(",", ":"))
    return [
        outcome.kind.value,
        admission.generation,
        admission.token or "",
        latency_ms,
        int(latency_ms >= admission.policy.slow_ms),
        outcome.hold_ms,
        failure,
        draw,
    ]


def read_reply(key: str, reply: Sequence[Any]) -> Reply:
    transitions = tuple(map(_read_transition, reply[0]))
    generation = transitions[-1].generation if transitions else 0
    news = read_news(key, generation, reply[1]) if reply[1] else None
    return Reply(transitions, news, reply[2] if len(reply) > 2 else ())


def read_news(key: str, generation: int, text: bytes) -> News:
    """An entry of the index, or of the stream, where an empty text means plainly closed."""
    # Defaults are left out of an entry, but for the state and the ramp.
    if text in (b"", b"plain"):
        return News(key, generation)
    entry = json.loads(text)
    return News(
        key,
        int(entry.get("generation", 0)),
        plain=False,
        state=State(entry["state"]),
        override=Override(entry.get("override", "none")),
        override_until_ms=_optional(entry.get("override_until_ms")),
        override_reason=entry.get("override_reason", ""),
        probe_ms=_optional(entry.get("probe_ms")),
        held_ms=int(entry.get("held_ms", 0)),
        hold_ms=int(entry.get("hold_ms", 0)),
        changed_ms=int(entry.get("changed_ms", 0)),
        ramp_ms=int(entry["ramp_ms"]),
        reason=entry.get("reason", ""),
        numbers=json.loads(entry.get("numbers", "{}")),
    )


def read_admission(key: str, policy: Policy, token: str, answer: Sequence[bytes]) -> Admission:
    allowed, probe, reason, state, generation, share, would_deny, now_ms, wait_ms, why, numbers = answer
    admission = Admission(key, policy, int(generation))
    admission.at_ms = int(now_ms)
    admission.state = State(state.decode())
    admission.share = float(share)
    if allowed == b"0":
        admission.allowed = False
        admission.reason = Denial(reason.decode())
        admission.wait_ms = int(wait_ms) if wait_ms else None
        forced = admission.reason is Denial.FORCED_OPEN
        admission.why = why.decode() if forced else explain(why.decode(), json.loads(numbers))
    elif probe == b"1":
        admission.probe = True
        admission.token = token
    elif would_deny == b"1":
        admission.would_deny = True
    return admission


def read_event(fields: Mapping[bytes, bytes], generation: int) -> tuple[News, Transition | None]:
    """An entry of a shard's stream: a transition, or a hold without one."""
    key = fields[b"key"].decode()
    news = read_news(key, generation, fields[b"entry"])
    if b"after" not in fields:
        return news, None
    row = [
        fields[b"key"],
        str(generation).encode(),
        *(fields[name] for name in (b"before", b"after", b"at_ms", b"reason", b"numbers", b"actor", b"override")),
    ]
    return news, _read_transition(row)


def read_breaker(key: str, hash_: Sequence[bytes] | Mapping[bytes, bytes], now_ms: int, policy: Policy) -> Breaker:
    """A stored breaker as the machine knows it; a new one if it is past its time."""
    if not isinstance(hash_, Mapping):
        hash_ = dict(zip(hash_[::2], hash_[1::2], strict=True))
    fields = {name.decode(): value for name, value in hash_.items()}
    if int(fields.get("expires_ms", 0)) <= now_ms:
        return Breaker(key, policy.bucket_ms)
    text = {name: value.decode() for name, value in fields.items() if name != "window"}
    breaker = Breaker(key, int(text.get("width_ms", 0)))
    if "window" in fields:
        breaker.window = Window.load(breaker.window.width_ms, read_window(fields["window"]).buckets)
    for name in ("generation", "changed_ms", "streak", "trips", "probe_successes", "held_ms", "hold_ms", "expires_ms"):
        setattr(breaker, name, int(text.get(name, 0)))
    for name in ("opened_ms", "probe_ms", "override_until_ms"):
        setattr(breaker, name, _optional(text.get(name)))
    breaker.state = State(text["state"])
    breaker.override = Override(text.get("override", "none"))
    breaker.override_reason = text.get("override_reason", "")
    breaker.reason = text.get("reason", "")
    breaker.numbers = json.loads(text.get("numbers", "{}"))
    breaker.total_ok, breaker.total_failed, breaker.total_slow = (
        int(text.get(name, 0)) for name in ("ok", "failed", "slow")
    )
    pairs = (lease.rpartition("=") for lease in text.get("leases", "").split())
    breaker.leases = {token: int(deadline) for token, _, deadline in pairs}
    breaker.failures = tuple(_read_failure(line) for line in text.get("failures", "").split("\n") if line)
    return breaker


def read_window(packed: bytes) -> StoredWindow:
    """See window.lua for the layout."""
    totals = _read_numbers(packed, _TOTAL_SIZES)
    places = range(sum(_TOTAL_SIZES), len(packed), sum(_BUCKET_SIZES))
    newest, *sealed = (_read_numbers(packed[at:], _BUCKET_SIZES) for at in places)
    return StoredWindow(Counts(*totals), (*sealed, newest))


def _read_numbers(packed: bytes, sizes: Sequence[int]) -> tuple[int, ...]:
    ends = tuple(accumulate(sizes))
    return tuple(int.from_bytes(packed[end - size : end], "big") for size, end in zip(sizes, ends, strict=True))


def _read_transition(row: Sequence[bytes]) -> Transition:
    key, generation, before, after, at_ms, reason, numbers, actor, override = (text.decode() for text in row)
    return Transition(
        key,
        State(before),
        State(after),
        int(generation),
        int(at_ms) / 1000,
        reason,
        json.loads(numbers),
        actor,
        Override(override),
    )


def _read_failure(line: str) -> Failure:
    at_ms, _, kept = line.partition(" ")
    fields = json.loads(kept)
    return Failure(fields["type"], fields["message"], int(at_ms) / 1000)


def _optional(text: str | None) -> int | None:
    return None if text is None else int(text)
