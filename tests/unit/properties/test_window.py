"""The window of buckets against a plain list of everything that happened."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from hookfuse.core.window import BUCKETS, FOREVER_MS, Counts, Window
from tests.unit.properties.strategies import look

START_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Event(NamedTuple):
    at: int
    failed: bool
    slow: bool
    latency_ms: int | None

    def counts(self) -> Counts:
        timed = self.latency_ms is not None
        return Counts(not self.failed, self.failed, self.slow and timed, timed, self.latency_ms or 0)


class Move(NamedTuple):
    """Time moves by `share` of an edge of the window and `extra` milliseconds; then perhaps something happens."""

    edge: int
    share: float
    extra: int
    back: bool
    look: bool
    event: tuple[bool, bool, int | None] | None

    def step(self, span: int, width: int) -> int:
        span, width = min(span, DAY_MS), min(width, DAY_MS // 10)
        edge = (0, width, span, span - width, span + width, 2 * width)[self.edge]
        return max(int(edge * self.share) + self.extra, 0) * (-1 if self.back else 1)


@dataclass
class History:
    """Everything that happened.

    `events` must be counted while younger than span - width. `doubtful` ones may be: they are older than that, or
    lay ahead of the clock once, in a bucket that began before.
    """

    span: int
    width: int
    now: int = START_MS
    events: list[Event] = field(default_factory=list)
    doubtful: list[Event] = field(default_factory=list)

    def look(self) -> None:
        young = self.now - (self.span - self.width)
        self.doubtful += [event for event in self.events if not young <= event.at <= self.now]
        self.events = [event for event in self.events if young <= event.at <= self.now]
        self.doubtful = [event for event in self.doubtful if self.now - self.span <= event.at < self.now + self.width]

    def least(self) -> Counts:
        return total(self.events)

    def most(self) -> Counts:
        return total(self.events + self.doubtful)


def total(events: Iterable[Event]) -> Counts:
    return summed([event.counts() for event in events])


def summed(rows: Iterable[Iterable[int]]) -> Counts:
    columns = list(zip(*rows, strict=True))
    return Counts(*(sum(column) for column in columns)) if columns else Counts()


def width_of(span: int) -> int:
    """The bucket width that a policy derives from its window."""
    return FOREVER_MS if span == FOREVER_MS else -(-span // BUCKETS)


spans = st.sampled_from([10, 11, 19, 95, 100, 1_000, 1_005, 60_000, FOREVER_MS])
events = st.tuples(st.booleans(), st.booleans(), st.none() | st.integers(0, 5_000))


def moves(back: st.SearchStrategy[bool], longest: int = 40) -> st.SearchStrategy[list[Move]]:
    share = st.just(1.0) | st.floats(0, 1)
    move = st.builds(Move, st.integers(0, 5), share, st.integers(-1, 1), back, st.booleans(), st.none() | events)
    return st.lists(move, min_size=1, max_size=longest)


def add(window: Window, history: History, event: tuple[bool, bool, int | None]) -> None:
    failed, slow, latency_ms = event
    check(window, history)
    window.add(history.now, failed=failed, slow=slow, latency_ms=latency_ms)
    history.events.append(Event(history.now, failed, slow, latency_ms))


def check(window: Window, history: History) -> None:
    window.slide(history.now, history.width, history.span)
    history.look()
    counts, buckets = window.counts(), window.buckets()
    for low, found, high in zip(history.least(), counts, history.most(), strict=True):
        assert low <= found <= high, f"{low} <= {found} <= {high} at {history}"
    assert counts == summed(bucket[1:] for bucket in buckets)
    starts = [bucket[0] for bucket in buckets]
    assert starts == sorted(starts)
    assert all(history.now - history.span <= start <= history.now for start in starts)
    assert len(buckets) <= BUCKETS + 1, f"{len(buckets)} buckets at {history}"


def run(window: Window, history: History, moves: list[Move]) -> None:
    for move in moves:
        step = move.step(history.span, history.width)
        history.now += step
        # A window knows the time only from its calls: going back and forth between two of them is standing still.
        if move.look or step < 0:
            check(window, history)
        if move.event is not None:
            add(window, history, move.event)
    check(window, history)


@look(200)
@given(span=spans, moves=moves(st.just(False)))
def test_counts_lie_between_what_must_and_what_may_be_seen(span: int, moves: list[Move]) -> None:
    """Nothing older than the span is counted, everything younger than span - width is, in at most eleven buckets."""
    width = width_of(span)
    run(Window(width), History(span, width), moves)


@look(300)
@given(span=spans, moves=moves(st.integers(0, 3).map(lambda draw: draw == 3), longest=60))
def test_a_clock_that_goes_back_loses_the_future_and_nothing_else(span: int, moves: list[Move]) -> None:
    """When time goes back what lies ahead is dropped, and the past stays."""
    width = width_of(span)
    run(Window(width), History(span, width), moves)


@look(20)
@given(span=spans.filter(lambda span: 100 <= span < FOREVER_MS), rounds=st.integers(1, 30), slip=st.integers(1, 3))
def test_a_clock_that_swings_takes_no_more_memory(span: int, rounds: int, slip: int) -> None:
    """A clock that goes to and fro around a bucket's edge leaves no more buckets behind than a steady one."""
    width = width_of(span)
    window, history = Window(width), History(span, width)
    for _ in range(rounds):
        add(window, history, (False, False, None))
        history.now += width
        add(window, history, (True, False, None))
        history.now += slip - width
        check(window, history)


@look(100)
@given(span=spans.filter(lambda span: span < FOREVER_MS), moves=moves(st.just(False)))
def test_the_window_is_exact_for_events_a_width_apart(span: int, moves: list[Move]) -> None:
    """Events at least one width apart are each counted for exactly the span, to the millisecond."""
    width = width_of(span)
    window, history = Window(width), History(span, width)
    free = history.now
    for move in moves:
        history.now += move.step(span, width)
        if move.event is not None and history.now >= free:
            add(window, history, move.event)
            free = history.now + width
        check(window, history)
        assert window.counts() == history.most()


@look(60)
@given(span=spans, before=moves(st.just(False), 10), other=spans, after=moves(st.just(False), 10))
def test_another_width_empties_the_window(span: int, before: list[Move], other: int, after: list[Move]) -> None:
    """A window asked with another bucket width forgets everything, and then counts as a new one."""
    width, other_width = width_of(span), width_of(other)
    assume(width != other_width)
    window, history = Window(width), History(span, width)
    run(window, history, before)
    window.slide(history.now, other_width, other)
    assert window.counts() == Counts()
    run(window, History(other, other_width, history.now), after)
