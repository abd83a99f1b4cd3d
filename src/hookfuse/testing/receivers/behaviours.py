"""What endpoints do that speak HTTP properly: they answer, late or never well, but they answer.

A behaviour is a value. `begin` makes what is asked for each request, so one value may serve many endpoints, each with
its own place in a script and its own draws.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from hookfuse.core.bounds import finite
from hookfuse.errors import InvalidInput, shown
from hookfuse.testing.receivers.answers import Answer, Answerer, Arrival, response

RetryAfter: TypeAlias = str | float | None
"""Seconds, or the header's text as it is ("-1", a date), or None for no header."""


class Behaviour(Protocol):
    """What an endpoint does with its requests."""

    def begin(self) -> Answer | Answerer:
        """The answer to every request, or what gives the answer to each."""


def answerer(behaviour: Behaviour) -> Answerer:
    begun = behaviour.begin()
    if isinstance(begun, Answer):
        return lambda _: begun
    return begun


def checked(name: str, value: object, low: float, high: float) -> None:
    """Refuse a number out of its bounds with a sentence that names it."""
    number = finite(value)
    if number is None or not low <= number <= high:
        raise InvalidInput(f"{name} must be a number from {low:g} to {high:g}, got {shown(value)}.")


@dataclass(frozen=True, slots=True)
class Ok:
    """Takes it, after a while."""

    status: int = 200
    delay: float = 0.0
    body: bytes = b""

    def __post_init__(self) -> None:
        checked("status", self.status, 200, 299)
        checked("delay", self.delay, 0, 86_400)

    def begin(self) -> Answer:
        whole = response(self.status, body=self.body)
        return Answer(self.status, (self.delay, whole) if self.delay else (whole,))


@dataclass(frozen=True, slots=True)
class Slow:
    """Takes it, but late."""

    seconds: float

    def begin(self) -> Answer:
        return Ok(delay=self.seconds).begin()


@dataclass(frozen=True, slots=True)
class Failing:
    """Answers with an error, at once."""

    status: int = 500
    body: bytes = b""

    def __post_init__(self) -> None:
        checked("status", self.status, 400, 599)

    def begin(self) -> Answer:
        return Answer(self.status, (response(self.status, body=self.body),))


@dataclass(frozen=True, slots=True)
class Gone:
    """410: wants nothing any more."""

    def begin(self) -> Answer:
        return Failing(410).begin()


@dataclass(frozen=True, slots=True)
class Redirect:
    """Sends the client elsewhere."""

    location: str
    status: int = 302

    def __post_init__(self) -> None:
        checked("status", self.status, 300, 399)

    def begin(self) -> Answer:
        return Answer(self.status, (response(self.status, [("location", self.location)]),))


@dataclass(frozen=True, slots=True)
class Unavailable:
    """503, and when to come back."""

    retry_after: RetryAfter = None

    def begin(self) -> Answer:
        return _refusal(503, self.retry_after)


@dataclass(frozen=True, slots=True)
class RateLimited:
    """Takes so many in any one second; the others get 429 and when to come back."""

    per_second: int = 0
    retry_after: RetryAfter = 1

    def __post_init__(self) -> None:
        checked("per_second", self.per_second, 0, 1_000_000)

    def begin(self) -> Answerer:
        taken, refused = Ok().begin(), _refusal(429, self.retry_after)
        recent: deque[float] = deque()

        def answer(arrival: Arrival) -> Answer:
            while recent and recent[0] <= arrival.arrived_at - 1:
                recent.popleft()
            if len(recent) >= self.per_second:
                return refused
            recent.append(arrival.arrived_at)
            return taken

        return answer


@dataclass(frozen=True, slots=True)
class Flaky:
    """Fails a share of its requests, drawn from a seed."""

    share: float
    seed: int = 0
    failure: Behaviour = field(default_factory=Failing)

    def __post_init__(self) -> None:
        checked("share", self.share, 0, 1)

    def begin(self) -> Answerer:
        draw = random.Random(self.seed).random
        taken, failed = Ok().begin(), answerer(self.failure)
        return lambda arrival: failed(arrival) if draw() < self.share else taken


@dataclass(frozen=True, slots=True)
class Script:
    """One behaviour for each request, in turn; the last one stays."""

    turns: Sequence[Behaviour]

    def __post_init__(self) -> None:
        if not self.turns:
            raise InvalidInput("turns must name at least one behaviour.")

    def begin(self) -> Answerer:
        waiting = deque(map(answerer, self.turns))
        return lambda arrival: (waiting.popleft() if len(waiting) > 1 else waiting[0])(arrival)


def _refusal(status: int, retry_after: RetryAfter) -> Answer:
    text = retry_after if isinstance(retry_after, str | None) else f"{retry_after:g}"
    headers = [] if text is None else [("retry-after", text)]
    return Answer(status, (response(status, headers),))
