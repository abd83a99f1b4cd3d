"""The search accepts what can be explained and nothing else: breakers that are wrong on purpose do not pass."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from importlib.resources import files
from threading import Lock

import pytest
import redis

from hookfuse import Outcome
from hookfuse.testing import ManualClock
from hookfuse.testing.redis import ServerClock
from tests.differential.linear.clients import CLIENTS, in_threads, one_by_one
from tests.differential.linear.faulty import Apart, Published
from tests.differential.linear.history import Admit, Advance, Call, History, Inspect, Operation, Record
from tests.differential.linear.model import COOL_OFF_MS, Model, View, everything, passing
from tests.differential.linear.ours import InThreads
from tests.differential.linear.search import explain

_TRIES = 40
_NOW_MS = round(ManualClock().now() * 1000)


def one_is_rejected(histories: Iterator[tuple[Model, History]], view: View = everything) -> bool:
    """Whether one of the first histories has no explanation."""
    some = itertools.islice(histories, _TRIES)
    return any(explain(history, start, view).order is None for start, history in some)


def blamed(start: Model, history: History, view: View = everything) -> Call | None:
    """The call of a history without concurrency that has no explanation."""
    verdict = explain(history, start, view)
    return None if verdict.order is not None else verdict.stuck[0][0].call


def opened(*held: str) -> list[Call]:
    """Four calls are let through; three of them fail, which opens the breaker; `held` is still under way."""
    names = ["a", "b", "c", *held]
    return [*map(Admit, names), *(Record(name, Outcome.FAILURE) for name in names[:3])]


LATE_SUCCESS = [*opened("late"), Advance(COOL_OFF_MS), Admit("probe"), Record("late", Outcome.OK), Inspect()]
LATE_FAILURE = [
    *opened("late"),
    Advance(COOL_OFF_MS // 2),
    Record("late", Outcome.FAILURE),
    Advance(COOL_OFF_MS // 2),
    Admit("probe"),
]
AT_THE_EDGE = [*opened(), Advance(COOL_OFF_MS), *(Admit(f"probe {nth}") for nth in range(CLIENTS))]
SECOND_OUTAGE = [
    *(*opened(), Advance(COOL_OFF_MS), Admit("probe"), Record("probe", Outcome.FAILURE)),
    *(Advance(COOL_OFF_MS), Admit("next probe")),
]
REPORT_AFTER_RECOVERY = [
    *(*opened("late"), Advance(COOL_OFF_MS), Admit("probe"), Record("probe", Outcome.OK)),
    *(Record("late", Outcome.FAILURE), Inspect()),
]
THROTTLED_PROBE = [
    *(*opened(), Advance(COOL_OFF_MS), Admit("probe"), Record("probe", Outcome.throttled(1))),
    *(Advance(1_000), Admit("next probe")),
]
SHOWING = {
    "late success": LATE_SUCCESS,
    "late failure": LATE_FAILURE,
    "at the edge": AT_THE_EDGE,
    "second outage": SECOND_OUTAGE,
    "report after recovery": REPORT_AFTER_RECOVERY,
    "throttled probe": THROTTLED_PROBE,
}


def test_real_time() -> None:
    """A look that shows the past is explained by the reports that it overlaps, not by those that it followed."""
    start = after = Model("ep", _NOW_MS)
    past = start.apply(Inspect())[1]
    calls: list[Call] = opened()
    history = []
    for nth, call in enumerate(calls):
        after, result = after.apply(call)
        history.append(Operation(0, call, result, 10 * nth, 10 * nth + 5))
    first_report, end = 30, 10 * len(calls)
    beside = Operation(1, Inspect(), past, first_report, end)
    following = Operation(1, Inspect(), past, first_report + 6, end)
    assert explain((*history, beside), start).order is not None
    assert explain((*history, following), start).order is None


@pytest.mark.parametrize("token", [False, True], ids=["no token", "token"])
class TestPublished:
    """A script as it is often published, judged only by who may pass and by the state."""

    @pytest.fixture
    def published(self, client: redis.Redis, token: bool) -> Published:
        return Published(client, ServerClock(client, "published"), "ep", token=token)

    @pytest.mark.parametrize("calls", [LATE_SUCCESS, LATE_FAILURE], ids=["late success", "late failure"])
    def test_late_reports(self, published: Published, calls: list[Call]) -> None:
        """A late success that closes a half-open breaker and a late failure that prolongs the cool-off are found."""
        history = one_by_one(published.perform, calls)
        assert blamed(Model("ep", _NOW_MS), history, passing) == calls[-1]

    def test_probes(self, published: Published, token: bool) -> None:
        """Several callers that pass at the edge are found, and so is a probe refused for an old probe's token."""
        calls, wrong = (SECOND_OUTAGE, "next probe") if token else (AT_THE_EDGE, "probe 1")
        history = one_by_one(published.perform, calls)
        assert blamed(Model("ep", _NOW_MS), history, passing) == Admit(wrong)

    def test_at_random(self, client: redis.Redis, pool: ThreadPoolExecutor, token: bool) -> None:
        """Clients that do as they like soon show a fault, too."""
        clock = ServerClock(client, "published")

        def histories() -> Iterator[tuple[Model, History]]:
            for seed in itertools.count():
                start = Model("ep", round(clock.now() * 1000))
                performers = [Published(client, clock, f"ep{seed}", token=token).perform for _ in range(CLIENTS)]
                yield start, in_threads(pool, seed, performers, throttles=False)

        assert one_is_rejected(histories(), passing)


@pytest.mark.parametrize("calls", SHOWING.values(), ids=list(SHOWING))
def test_ours_on_the_same_calls(redis_url: str, pool: ThreadPoolExecutor, calls: list[Call]) -> None:
    """On all the calls that show a fault of others, ours is right, judged by everything and by who may pass."""
    with InThreads(redis_url, pool) as ours:
        start, history = ours.run_singly(calls, "ep")
    verdict = explain(history, start)
    assert verdict.order is not None, verdict
    assert explain(history, start, passing).order is not None


@pytest.mark.parametrize(("lock", "found"), [(nullcontext(), True), (Lock(), False)], ids=["apart", "together"])
def test_atomicity(
    client: redis.Redis, pool: ThreadPoolExecutor, lock: AbstractContextManager[object], found: bool
) -> None:
    """The machine itself is rejected when it reads, decides and writes apart, and accepted when it does so at once."""

    def histories() -> Iterator[tuple[Model, History]]:
        for seed in itertools.count():
            apart, start = Apart(client, "ep", lock), Model("ep", _NOW_MS)
            apart.begin(start)
            yield start, in_threads(pool, seed, [apart.perform] * CLIENTS)

    assert one_is_rejected(histories()) is found


BROKEN = {
    "lease limit ignored": (r"if \S+ >= policy\.probes then", "if false then", AT_THE_EDGE, Admit("probe 1")),
    "older reports counted": (r"report\.generation >= breaker\.generation", "true", REPORT_AFTER_RECOVERY, Inspect()),
    "lease kept after its report": (
        r"breaker\.held_leases\[report\.token\] = nil",
        "",
        THROTTLED_PROBE,
        Admit("next probe"),
    ),
    "probe due a moment late": (r"now >= breaker\.probe_ms", "now > breaker.probe_ms", AT_THE_EDGE, Admit("probe 0")),
}


def broken(rule: str, instead: str) -> dict[str, str]:
    """Our machine with one rule broken, ready to be swapped in."""
    machine = (files("hookfuse.stores.redis") / "lua" / "machine.lua").read_text("utf-8")
    machine, times = re.subn(rule, instead, machine)
    assert times == 1, f"{rule} is there {times} times"
    return {"machine": machine}


@pytest.mark.parametrize(("rule", "instead", "calls", "wrong"), BROKEN.values(), ids=list(BROKEN))
def test_broken_rule(
    redis_url: str, pool: ThreadPoolExecutor, rule: str, instead: str, calls: list[Call], wrong: Call
) -> None:
    """Our own scripts with one rule broken are rejected at the first call that the rule is for."""
    with InThreads(redis_url, pool, broken(rule, instead)) as ours:
        start, history = ours.run_singly(calls, "ep")
    assert blamed(start, history) == wrong


def test_broken_rule_at_random(redis_url: str, pool: ThreadPoolExecutor) -> None:
    """Clients that do as they like soon show that our scripts ignore the lease limit, when made to."""
    rule, instead, *_ = BROKEN["lease limit ignored"]
    with InThreads(redis_url, pool, broken(rule, instead)) as ours:
        histories = (ours.run(seed, f"ep{seed}") for seed in itertools.count())
        assert one_is_rejected(histories)
