"""A history as plain data: what happens to two breakers, with every number in it, so that it can be cut and rerun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.state import Order
from hookfuse.core.window import Counts

KEYS = ("a", "b")


@dataclass(frozen=True)
class Admit:
    key: str
    token: str


@dataclass(frozen=True)
class Record:
    key: str
    outcome: Outcome
    generation: int
    token: str | None = None
    latency_ms: int | None = None
    error: BaseException | str | None = None
    draw: float = 0.5


@dataclass(frozen=True)
class Oks:
    """Successes that were buffered; `latency_ms` is that of all of them."""

    key: str
    generation: int
    times: int
    latency_ms: int | None = None
    draw: float = 0.5


@dataclass(frozen=True)
class Release:
    key: str
    token: str


@dataclass(frozen=True)
class Force:
    key: str
    order: Order
    reason: str = ""
    until_ms: int | None = None
    actor: str = "operator"


@dataclass(frozen=True)
class Evaluate:
    key: str
    tally: Counts | None = None
    draw: float = 0.5
    generation: int | None = None
    """Only in a batch: the breaker's when the tally was taken."""


Action: TypeAlias = Admit | Record | Oks | Release | Force | Evaluate


@dataclass(frozen=True)
class Moment:
    """One call of a script: an action, or a batch of them. `swept`: what is past its time is gone from the server.

    A batch is of evaluations only, or has none.
    """

    now_ms: int
    policies: Mapping[str, Policy]
    actions: tuple[Action, ...]
    swept: bool = True
    batch: bool = False


History: TypeAlias = tuple[Moment, ...]


def told(history: History) -> str:
    """A history as text that can be typed back in."""
    lines: list[str] = []
    policies: Mapping[str, Policy] = {}
    for moment in history:
        for key, policy in moment.policies.items():
            if policies.get(key) != policy:
                lines.append(f"{key}: {policy}")
        policies = moment.policies
        how = "batch " if moment.batch else ""
        acts = "; ".join(map(repr, moment.actions))
        lines.append(f"{moment.now_ms} {how}{'' if moment.swept else 'unswept '}{acts}")
    return "\n".join(lines)
