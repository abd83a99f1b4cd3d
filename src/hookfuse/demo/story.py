"""The story: one receiver dies and rises again. Each turn is told when it has been seen to happen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import TypeVar

from hookfuse.core.state import State, Transition
from hookfuse.demo.books import Books
from hookfuse.demo.crew import Crew
from hookfuse.demo.draining import check_drain
from hookfuse.demo.plan import Plan
from hookfuse.demo.producer import CAP, Producer
from hookfuse.demo.receivers import CAST, HEALTHY, VICTIM, Conduct, DemoReceivers
from hookfuse.demo.watch import Look, Missed, Watch

T = TypeVar("T")

_ENOUGH = 10
"""Arrivals that make a median."""
_HELD = 10
_GROWTH = 1.5
# What a dead receiver could do to the others is to make them wait for its deadline, which is seconds.
_FLAT_FACTOR, _FLAT_SECONDS = 2, 0.25


class Mood(StrEnum):
    GOOD = "good"
    BAD = "bad"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Turn:
    """Something that happened, `at` seconds after the story's beginning."""

    at: float
    mood: Mood
    title: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that the story looks at, or touches."""

    receivers: DemoReceivers
    producer: Producer
    books: Books
    watch: Watch
    crew: Crew | None

    def key(self, name: str) -> str:
        """The breaker of a receiver's endpoint."""
        return f"{self.producer.app_id}/{self.producer.endpoint_ids[name]}"


class Story:
    """`run` returns when all of it has happened, and raises `Missed` when a turn has not."""

    def __init__(self, plan: Plan, stage: Stage, tell: Callable[[Turn], None]) -> None:
        self._plan = plan
        self._receivers = stage.receivers
        self._books = stage.books
        self._watch = stage.watch
        self._crew = stage.crew
        self._tell = tell
        self._app_id = stage.producer.app_id
        self._victim_id = stage.producer.endpoint_ids[VICTIM]
        self._victim_key = stage.key(VICTIM)
        self._began = time.monotonic()

    async def run(self) -> None:
        await self._flow()
        before = await self._baseline()
        broken_at = self._break()
        await self._trip()
        await self._hold()
        await self._compare(before, broken_at)
        await self._back_off()
        await self._heal()
        await self._drain(await self._close())

    async def rest(self) -> None:
        """Wait until everything that was accepted is at its end."""

        async def look() -> bool:
            return await self._watch.waiting(self._app_id) == 0

        await self._until_stored(look, "Some deliveries did not come to an end")

    async def _flow(self) -> None:
        reached = self._books.reached
        await self._until(lambda: len(reached()) == len(CAST), "Messages did not reach all six receivers")
        await self._not_before(self._plan.break_at / 2)
        self._say(Mood.GOOD, "Messages flow", f"{self._plan.rate:g} a second, each to all six receivers.")

    async def _baseline(self) -> float:
        """How long messages take to the healthy receivers, once all is under way."""
        since = time.time()
        await self._not_before(self._plan.break_at)
        return await self._latency(since)

    def _break(self) -> float:
        """Returns when it was, in Unix seconds."""
        self._receivers.change(VICTIM, Conduct.DEAD)
        self._say(Mood.BAD, f"{VICTIM} dies", "It refuses every connection from now on.")
        return time.time()

    async def _trip(self) -> None:
        tripped = await self._until(
            lambda: self._watch.first(self._victim_key, State.OPEN), f"The breaker of {VICTIM} did not trip"
        )
        cool_offs = await self._until(self._cool_offs, "Nobody learned when the next probe may go")
        sentence = f"{tripped.why[:1].upper()}{tripped.why[1:]}. No more requests for {cool_offs[0]:.1f} s."
        self._say(Mood.BAD, "Its breaker opens", sentence)
        if self._crew is not None:
            await self._share(self._crew, tripped)

    async def _share(self, crew: Crew, tripped: Transition) -> None:
        number = len(crew.members)
        await self._until(
            lambda: crew.know(tripped.key, tripped.generation) == number, "Not every worker process learned of the trip"
        )
        made = " + ".join(str(member.attempts[self._victim_id]) for member in crew.members)
        sentence = f"{number} worker processes know of this one trip; they sent {made} requests there so far."
        self._say(Mood.GOOD, "One breaker for all", sentence)

    async def _hold(self) -> None:
        await self._not_before(self._plan.hold_at)

        async def look() -> int | None:
            held = await self._held()
            return held if held >= _HELD else None

        held = await self._until_stored(look, f"No messages were held for {VICTIM}")
        sentence = f"{held} wait in the store: none is lost, none is tried in vain."
        self._say(Mood.WAITING, "Its messages are held", sentence)

    async def _compare(self, before: float, broken_at: float) -> None:
        await self._not_before(self._plan.compare_at)
        during = await self._latency(broken_at)
        if during > _FLAT_FACTOR * before + _FLAT_SECONDS:
            raise Missed(f"The healthy receivers had to wait: {_ms(during)} instead of {_ms(before)}.")
        sentence = f"{' and '.join(HEALTHY)} have theirs after {_ms(during)}; before, it was {_ms(before)}."
        self._say(Mood.GOOD, "The others notice nothing", sentence)

    async def _back_off(self) -> None:
        def look() -> list[float] | None:
            found = self._cool_offs()
            return found if found and found[-1] >= _GROWTH * found[0] else None

        found = await self._until(look, "No probe failed, or the cool-off did not grow")
        sentence = f"One request was enough to know. The next may go in {found[-1]:.1f} s, not in {found[0]:.1f} s."
        self._say(Mood.BAD, "A probe fails", sentence)

    async def _heal(self) -> None:
        await self._not_before(self._plan.heal_at)
        self._receivers.change(VICTIM, Conduct.HEALTHY)
        self._say(Mood.GOOD, f"{VICTIM} is repaired", "Nobody tells Hookfuse; the next probe will find out.")

    async def _close(self) -> Transition:
        closed = await self._until(
            lambda: self._watch.first(self._victim_key, State.CLOSED), "No probe succeeded after the repair"
        )
        self._say(Mood.GOOD, "A probe succeeds", f"The breaker closes; {await self._held()} messages may go.")
        return closed

    async def _drain(self, closed: Transition) -> None:
        heard_at = time.time()
        await self._until(
            lambda: self._books.on_the_way(VICTIM, heard_at) == 0, f"Not everything that was held reached {VICTIM}"
        )
        took = time.time() - heard_at
        closed_at = min(closed.at, heard_at)
        arrivals = self._books.since(VICTIM, closed_at)
        drained = check_drain(arrivals, closed_at, took, CAP, self._plan.policy.ramp_ms)
        sentence = (
            f"All of it has arrived within {took:.1f} s, at first {drained.first} at a time, in the end {drained.most}."
        )
        self._say(Mood.GOOD, "The backlog drains", sentence)

    async def _latency(self, since: float) -> float:
        """The median from sending to arrival at the healthy receivers, of messages sent since then."""

        def look() -> list[float] | None:
            found = self._books.latencies(HEALTHY, since)
            return found if len(found) >= _ENOUGH else None

        return median(await self._until(look, "Too few messages reached the healthy receivers"))

    def _cool_offs(self) -> list[float]:
        return [each.seconds for each in self._watch.cool_offs.get(self._victim_key, ())]

    async def _held(self) -> int:
        return await self._watch.waiting(self._app_id, self._victim_id)

    async def _until(self, look: Callable[[], T | None], missing: str) -> T:
        async def asked() -> T | None:
            return look()

        return await self._until_stored(asked, missing)

    async def _until_stored(self, look: Look[T], missing: str) -> T:
        return await self._watch.until(look, self._plan.patience, missing)

    async def _not_before(self, instant: float) -> None:
        """People need time to read; what happens meanwhile is found afterwards."""
        await asyncio.sleep(max(0.0, self._began + instant - time.monotonic()))

    def _say(self, mood: Mood, title: str, sentence: str) -> None:
        self._tell(Turn(time.monotonic() - self._began, mood, title, sentence))


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"
