"""What Prometheus reads at `/metrics`. Every name is documented in docs/operating.md.

No endpoint, application or message is a label: their number has no bound. Where several processes serve one port, the
counters of all of them are summed (prometheus-client's files, see `processes.py`); what the database or the breakers
say is the same in each of them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from hookfuse.app.processes import SHARED_FILES
from hookfuse.core.delivery import Claim
from hookfuse.core.member import Presence
from hookfuse.core.notice import Notice, NoticeChannel, NoticeState, Waiting
from hookfuse.core.outcome import Kind
from hookfuse.core.response import Step
from hookfuse.core.state import Order, State, Transition
from hookfuse.core.upkeep import Backlog, Concern
from hookfuse.delivery.courier import Attempted

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BUCKET = "hookfuse_attempt_seconds_bucket"
_BY_HAND = frozenset(Order)
_BY_OPERATOR = "operator"
_LISTED = (Presence.RUNNING, Presence.DRAINING, Presence.SILENT)
_ENDS = (NoticeState.SENT, NoticeState.FAILED)


@dataclass(frozen=True, slots=True)
class Readings:
    """What is read when someone asks, not counted when it happens."""

    ready: bool
    degraded: bool
    shared: bool
    suspect: bool
    in_hand: int
    slots: int
    backlog: Backlog | None
    set_aside: int = 0
    breakers: dict[State, int] = field(default_factory=dict)
    """Breakers that are not plainly closed, by state."""
    notices: Sequence[Waiting] = ()
    """Notices that have not ended."""
    alerts: Collection[Concern] = ()
    processes: Mapping[Presence, int] | None = field(default_factory=dict)
    """Those of the fleet; None: not known."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Of what was counted so far, what people look at."""

    sent: int
    """Deliveries."""
    ok: int
    """Attempts."""
    failed: int
    seconds: tuple[tuple[float, int], ...]
    """How long attempts took: for each limit, how many took no longer."""


class Metrics:
    """Counts what happens in this process."""

    def __init__(self) -> None:
        # When a counter began is of no use, and would double the page.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        several = SHARED_FILES in os.environ
        own = CollectorRegistry() if several else self._registry
        if several:
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        else:
            ProcessCollector(registry=self._registry)
            PlatformCollector(registry=self._registry)
        attempts = Counter(
            "hookfuse_attempts", "Requests made, by what they say of the endpoint.", ["outcome"], registry=own
        )
        ends = Counter("hookfuse_deliveries", "Deliveries that ended with an attempt.", ["state"], registry=own)
        self._attempts = {kind: attempts.labels(kind.value) for kind in Kind}
        self._ends = {step: ends.labels(step.value) for step in (Step.SENT, Step.FAILED)}
        self._seconds = Histogram("hookfuse_attempt_seconds", "How long requests took.", buckets=_SECONDS, registry=own)
        self._retries = Counter("hookfuse_retries", "Attempts that will be made again.", registry=own)
        self._lost = Counter("hookfuse_leases_lost", "Deliveries settled after their lease had ended.", registry=own)
        self._transitions = Counter(
            "hookfuse_breaker_transitions", "Changes of breakers seen here.", ["after", "reason"], registry=own
        )
        self._requests = Counter(
            "hookfuse_http_requests", "Requests to the API, by status class.", ["status"], registry=own
        )
        ended = Counter(
            "hookfuse_notices", "Notices that ended here, by channel and how.", ["channel", "state"], registry=own
        )
        self._notices = {
            (channel, state): ended.labels(channel.value, state.value) for channel in NoticeChannel for state in _ENDS
        }
        self._classes = {number: self._requests.labels(f"{number}xx") for number in range(1, 6)}

    def attempted(self, attempted: Attempted) -> None:
        verdict = attempted.verdict
        self._attempts[verdict.outcome.kind].inc()
        self._seconds.observe(attempted.result.latency)
        if verdict.step is Step.RETRY:
            self._retries.inc()
        else:
            self._ends[verdict.step].inc()

    def lost(self, claims: Sequence[Claim]) -> None:
        self._lost.inc(len(claims))

    def changed(self, made: Transition) -> None:
        # An operator's reason is free text, which is no label.
        by_hand = made.actor != "breaker" and made.reason not in _BY_HAND
        self._transitions.labels(made.after.value, _BY_OPERATOR if by_hand else made.reason).inc()

    def told(self, notice: Notice, state: NoticeState) -> None:
        self._notices[notice.channel, state].inc()

    def answered(self, status: int) -> None:
        self._classes[min(max(status // 100, 1), 5)].inc()

    def counted(self) -> Counted:
        """The counters as the page has them: of all processes on this port."""
        found: dict[tuple[str, str], float] = {}
        for family in self._registry.collect():
            for sample in family.samples:
                found[sample.name, next(iter(sample.labels.values()), "")] = sample.value
        limits = [(float(limit), count) for (name, limit), count in found.items() if name == _BUCKET]
        return Counted(
            int(found.get(("hookfuse_deliveries_total", Step.SENT.value), 0)),
            int(found.get(("hookfuse_attempts_total", Kind.OK.value), 0)),
            int(found.get(("hookfuse_attempts_total", Kind.FAILURE.value), 0)),
            tuple((limit, int(count)) for limit, count in sorted(limits)),
        )

    def page(self, readings: Readings) -> bytes:
        """Everything, in the text format of Prometheus."""
        collector = _Read(readings)
        self._registry.register(collector)
        try:
            return generate_latest(self._registry)
        finally:
            self._registry.unregister(collector)


class _Read(Collector):
    def __init__(self, readings: Readings) -> None:
        self._readings = readings

    def collect(self) -> Iterator[Metric]:
        seen = self._readings
        info = GaugeMetricFamily("hookfuse_info", "The version that runs.", labels=["version"])
        info.add_metric([version("hookfuse")], 1)
        yield info
        yield _gauge("hookfuse_ready", "Whether /readyz says so.", seen.ready)
        yield _gauge("hookfuse_breakers_degraded", "Whether the store of breakers is away.", seen.degraded)
        yield _gauge("hookfuse_breakers_shared", "Whether processes share their breakers.", seen.shared)
        yield _gauge("hookfuse_egress_suspect", "Whether failures are taken to be our own fault.", seen.suspect)
        yield _gauge("hookfuse_worker_requests", "Slots that requests of this process take.", seen.in_hand)
        yield _gauge("hookfuse_worker_slots", "Requests that this process has in flight at most.", seen.slots)
        yield _gauge("hookfuse_worker_set_aside", "Requests that nobody answers, out without a slot.", seen.set_aside)
        states = GaugeMetricFamily(
            "hookfuse_breakers", "Breakers that are not plainly closed, by state.", labels=["state"]
        )
        for state in State:
            states.add_metric([state.value], seen.breakers.get(state, 0))
        yield states
        yield from _waiting(seen.notices)
        if seen.processes is not None:
            yield _processes(seen.processes)
        alerts = GaugeMetricFamily("hookfuse_alert", "What someone should look at, as /readyz tells.", labels=["alert"])
        for concern in Concern:
            alerts.add_metric([concern.value], float(concern in seen.alerts))
        yield alerts
        if seen.backlog is not None:
            yield _gauge("hookfuse_deliveries_waiting", "Deliveries that wait.", seen.backlog.waiting)
            yield _gauge(
                "hookfuse_deliveries_held", "Of these, behind a stopped or broken endpoint.", seen.backlog.held
            )
            yield _gauge("hookfuse_deliveries_in_flight", "Deliveries in workers' hands.", seen.backlog.in_flight)
            yield _gauge(
                "hookfuse_oldest_pending_seconds",
                "For how long the oldest delivery has waited, held or not.",
                seen.backlog.age,
            )
            yield _gauge("hookfuse_lag_seconds", "By how much the first due delivery is late.", seen.backlog.lag)


def _waiting(notices: Sequence[Waiting]) -> Iterator[Metric]:
    count = GaugeMetricFamily("hookfuse_notices_waiting", "Notices that have not ended.", labels=["channel"])
    oldest = GaugeMetricFamily(
        "hookfuse_notices_oldest_seconds", "For how long the oldest of them could have gone.", labels=["channel"]
    )
    found = {each.channel: each for each in notices}
    for channel in NoticeChannel:
        waiting = found.get(channel, Waiting(channel, 0, 0))
        count.add_metric([channel.value], waiting.number)
        oldest.add_metric([channel.value], waiting.age_ms / 1000)
    yield count
    yield oldest


def _processes(found: Mapping[Presence, int]) -> Metric:
    processes = GaugeMetricFamily(
        "hookfuse_processes", "Processes of the fleet, by whether they are heard of.", labels=["state"]
    )
    for presence in _LISTED:
        processes.add_metric([presence.value], found.get(presence, 0))
    return processes


def _gauge(name: str, says: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, says, value=float(value))
