"""What clients see of one breaker at the same time is what they could have seen one after the other.

A failure names its seed and tells the history. HOOKFUSE_LINEAR_SEED tries one seed again and again,
HOOKFUSE_LINEAR_HISTORIES says how often for each face.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from hookfuse import Snapshot, Transition
from hookfuse.core.admission import Admission
from tests.differential.linear.clients import seeds
from tests.differential.linear.history import History, overlapping
from tests.differential.linear.ours import InTasks, InThreads
from tests.differential.linear.search import explain

_MUST_BE_SEEN = {
    *("allowed", "probe", "open", "probing", "throttled"),
    *("closed to open", "half_open to open", "half_open to closed"),
    *("seen closed", "seen open", "seen half_open"),
}


def kinds(history: History) -> Counter[str]:
    """What of a breaker's life a history shows."""
    found = Counter[str]()
    for _, _, result, _, _ in history:
        match result:
            case Admission():
                found[str(result.reason or ("probe" if result.probe else "allowed"))] += 1
            case Transition():
                found[f"{result.before} to {result.after}"] += 1
            case Snapshot():
                found[f"seen {result.state}"] += 1
    return found


@pytest.fixture(params=["threads", "tasks"])
def ours(request: pytest.FixtureRequest, redis_url: str, pool: ThreadPoolExecutor) -> Iterator[InThreads | InTasks]:
    with InThreads(redis_url, pool) if request.param == "threads" else InTasks(redis_url) as ours:
        yield ours


def test_linearizable(ours: InThreads | InTasks) -> None:
    """Every history of eight clients has an order in which the machine gives exactly the same answers."""
    seen = Counter[str]()
    beside = operations = 0
    for nth, seed in enumerate(seeds()):
        start, history = ours.run(seed, f"ep{nth}")
        verdict = explain(history, start)
        assert verdict.order is not None, f"HOOKFUSE_LINEAR_SEED={seed}\n{verdict}"
        seen += kinds(history)
        beside += overlapping(history)
        operations += len(history)
    assert seen.keys() >= _MUST_BE_SEEN, seen
    assert beside > operations / 2, f"only {beside} of {operations} operations had another one beside them"
