"""Three ledgers, joined: what was sent to us, what reached the endpoints, and what the database says.

The producer writes down each message and what it was told; the receivers write down each arrival; the database is
dumped when everything has come to rest, and may have kept what left its end before that. `check` names every
contradiction. An endpoint has the same name in all three: whoever dumps the database translates its ids. Bodies must
differ, because a producer that was cut off before it learned the id of its message can only be matched by the body.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from itertools import dropwhile
from typing import TypeAlias

from hookfuse.testing.receivers import Receipt

TERMINAL = frozenset({"sent", "failed", "cancelled"})
UNFINISHED = frozenset({"pending", "sending"})

_SHOWN = 10
_ALLOWANCES = ("duplicates_allowed", "reopened_allowed")

Pair: TypeAlias = tuple[str, str]
"""A message and one of its endpoints."""


class Told(StrEnum):
    """What a producer knows of its request."""

    OK = "ok"
    """2xx: it is ours now."""
    FAILED = "failed"
    """Refused for certain: it must not be delivered."""
    UNKNOWN = "unknown"
    """Cut off, timed out, or an error that promises nothing: both ends are right."""


@dataclass(frozen=True, slots=True)
class Produced:
    """One message, as its producer knows it."""

    id: str | None
    """None if no answer told it."""
    sha256: str
    told: Told
    endpoints: frozenset[str]
    """Where it should go."""


@dataclass(frozen=True, slots=True)
class Stored:
    """One delivery, as the database has it."""

    delivery: str
    message: str
    endpoint: str
    state: str
    attempts: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Fault:
    message: str
    endpoint: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """Every contradiction, by kind; as text it is what a failed test should print."""

    lost: tuple[Fault, ...]
    """Accepted, and gone: no delivery, or one that says sent and never arrived well."""
    phantom: tuple[Fault, ...]
    """Stored or delivered, though nobody was told that it would be."""
    wrong_body: tuple[Fault, ...]
    wrong_signature: tuple[Fault, ...]
    """Not verified; an arrival that nobody checked counts as wrong."""
    doubled: tuple[Fault, ...]
    """One for each arrival after the first that was answered well."""
    unfinished: tuple[Fault, ...]
    """Still pending or sending."""
    reopened: tuple[Fault, ...]
    """Had come to its end, and left it."""
    duplicates_allowed: int
    reopened_allowed: int

    @property
    def sound(self) -> bool:
        kinds = (self.lost, self.phantom, self.wrong_body, self.wrong_signature, self.unfinished)
        within = len(self.doubled) <= self.duplicates_allowed and len(self.reopened) <= self.reopened_allowed
        return not any(kinds) and within

    def __str__(self) -> str:
        if self.sound:
            return f"sound, with {len(self.doubled)} of {self.duplicates_allowed} duplicates"
        kinds = {field.name: getattr(self, field.name) for field in fields(self)}
        return "\n".join(
            line for kind, found in kinds.items() if kind not in _ALLOWANCES for line in self._lines(kind, found)
        )

    def _lines(self, kind: str, faults: tuple[Fault, ...]) -> Iterator[str]:
        if faults:
            allowed = {"doubled": self.duplicates_allowed, "reopened": self.reopened_allowed}.get(kind, 0)
            yield f"{kind}: {len(faults)}" + f" ({allowed} allowed)" * bool(allowed)
            for fault in faults[:_SHOWN]:
                yield f"  {fault.message} for {fault.endpoint}: {fault.why}"
            if len(faults) > _SHOWN:
                yield f"  and {len(faults) - _SHOWN} more"


def check(
    producer: Sequence[Produced],
    sink: Sequence[Receipt],
    database: Sequence[Stored],
    reopened: Sequence[Fault] = (),
    *,
    duplicates_allowed: int,
    reopened_allowed: int = 0,
) -> Report:
    """Join the ledgers of a run that has come to rest; `reopened` is what left its end, if that was watched."""
    _refuse_nonsense(producer, database)
    accepted = _accepted(producer, sink, database)
    arrivals: defaultdict[Pair, list[Receipt]] = defaultdict(list)
    for receipt in sorted(sink, key=lambda receipt: receipt.arrived_at):
        arrivals[receipt.webhook_id, receipt.endpoint].append(receipt)
    return Report(
        lost=tuple(_lost(accepted, arrivals, database)),
        phantom=tuple(_phantom(accepted, arrivals, database)),
        wrong_body=tuple(_wrong_body(accepted, sink, database)),
        wrong_signature=tuple(
            Fault(receipt.webhook_id, receipt.endpoint, "never checked" if receipt.verified is None else "refused")
            for receipt in sink
            if not receipt.verified
        ),
        doubled=tuple(_doubled(arrivals)),
        unfinished=tuple(
            Fault(row.message, row.endpoint, f"{row.state} after {row.attempts} attempts")
            for row in database
            if row.state in UNFINISHED
        ),
        reopened=tuple(reopened),
        duplicates_allowed=duplicates_allowed,
        reopened_allowed=reopened_allowed,
    )


def _refuse_nonsense(producer: Sequence[Produced], database: Sequence[Stored]) -> None:
    bodies = Counter(row.sha256 for row in producer)
    if any(count > 1 for count in bodies.values()):
        raise ValueError("each message needs a body of its own; put a number into it.")
    if any(row.id is None for row in producer if row.told is Told.OK):
        raise ValueError("a producer that was told ok was also told the id; write it down.")
    unknown = {row.state for row in database} - TERMINAL - UNFINISHED
    if unknown:
        raise ValueError(f"the database has states that nobody knows: {', '.join(sorted(unknown))}.")


def _accepted(producer: Sequence[Produced], sink: Sequence[Receipt], database: Sequence[Stored]) -> dict[str, Produced]:
    """What is ours to deliver, by id: what was promised, and what was taken before its producer was cut off."""
    seen = {row.message: row.sha256 for row in database}
    for receipt in sink:
        seen.setdefault(receipt.webhook_id, receipt.sha256)
    accepted = {row.id: row for row in producer if row.told is Told.OK and row.id is not None}
    cut_off = [row for row in producer if row.told is Told.UNKNOWN]
    accepted |= {row.id: row for row in cut_off if row.id in seen and row.id is not None}
    nameless = {row.sha256: row for row in cut_off if row.id is None}
    for message, sha256 in seen.items():
        # Each is matched once: the same body under a second id is one message too many.
        if message not in accepted and sha256 in nameless:
            accepted[message] = nameless.pop(sha256)
    return accepted


def _lost(
    accepted: dict[str, Produced], arrivals: dict[Pair, list[Receipt]], database: Sequence[Stored]
) -> Iterator[Fault]:
    states = {(row.message, row.endpoint): row.state for row in database}
    for message, produced in accepted.items():
        for endpoint in sorted(produced.endpoints):
            state = states.get((message, endpoint))
            if state is None:
                yield Fault(message, endpoint, "has no delivery in the database")
            elif state == "sent" and not any(map(_well, arrivals.get((message, endpoint), ()))):
                yield Fault(message, endpoint, "is said to be sent, and was never answered with 2xx")


def _phantom(
    accepted: dict[str, Produced], arrivals: dict[Pair, list[Receipt]], database: Sequence[Stored]
) -> Iterator[Fault]:
    stored = Counter((row.message, row.endpoint) for row in database)
    for where, pairs in (("in the database", stored), ("at the endpoint", arrivals)):
        for message, endpoint in pairs:
            if message not in accepted:
                yield Fault(message, endpoint, f"is {where}, and no producer was told so")
            elif endpoint not in accepted[message].endpoints:
                yield Fault(message, endpoint, f"is {where}, and was not meant for it")
    for (message, endpoint), count in stored.items():
        if count > 1:
            yield Fault(message, endpoint, f"has {count} deliveries in the database")


def _wrong_body(accepted: dict[str, Produced], sink: Sequence[Receipt], database: Sequence[Stored]) -> Iterator[Fault]:
    stored = ((row.message, row.endpoint, row.sha256, "in the database") for row in database)
    arrived = ((row.webhook_id, row.endpoint, row.sha256, "at the endpoint") for row in sink)
    for message, endpoint, sha256, where in (*stored, *arrived):
        if message in accepted and accepted[message].sha256 != sha256:
            yield Fault(message, endpoint, f"{sha256[:12]} {where} instead of {accepted[message].sha256[:12]}")


def _doubled(arrivals: dict[Pair, list[Receipt]]) -> Iterator[Fault]:
    for (message, endpoint), receipts in arrivals.items():
        taken = list(dropwhile(lambda receipt: not _well(receipt), receipts))
        for receipt in taken[1:]:
            yield Fault(message, endpoint, f"again {receipt.arrived_at - taken[0].arrived_at:.3f} s after it was taken")


def _well(receipt: Receipt) -> bool:
    return receipt.status is not None and 200 <= receipt.status < 300
