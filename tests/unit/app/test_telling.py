"""What is told of an attempt: to logs, metrics and traces."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from opentelemetry import trace

from hookfuse.app.logs import EventLog
from hookfuse.app.metrics import Metrics, Readings
from hookfuse.app.tracing import attempt_spans
from hookfuse.config import load
from hookfuse.core.delivery import Claim
from hookfuse.core.outcome import Outcome
from hookfuse.core.policy import Policy
from hookfuse.core.response import ResponsePolicy, Step, Verdict
from hookfuse.core.retry import RetrySchedule
from hookfuse.core.sending import SendResult, Trouble
from hookfuse.core.state import Order, State, Transition
from hookfuse.delivery.courier import Attempted
from hookfuse.delivery.targets import Target

CANARY = "canary"


def attempted(*, ok: bool) -> Attempted:
    """An attempt with a canary in everything that may hold a secret."""
    claim = Claim("msg_1", "ep_1", "app_1", 1, 1, "order.paid", CANARY.encode(), 0, 0, 0, 0, 1)
    headers = (("authorization", CANARY),)
    target = Target("ep_1", 1, "app_1/ep_1", Policy(), RetrySchedule(), ResponsePolicy(), 1, 15, "", None, headers)
    if ok:
        result = SendResult(200, None, 0.1234, headers, CANARY.encode())
        return Attempted(claim, target, result, Verdict(Step.SENT, Outcome.OK, "ok"))
    result = SendResult(None, Trouble.CONNECT, 0.5, detail="refused")
    return Attempted(claim, target, result, Verdict(Step.RETRY, Outcome.FAILURE, "connect", 30_000))


def logged(level: str, *all_of_them: Attempted) -> list[dict[str, Any]]:
    stream = io.StringIO()
    log = EventLog(load({"HOOKFUSE_LOG_LEVEL": level, "HOOKFUSE_LOG_FORMAT": "json"}).settings, stream)
    for each in all_of_them:
        log.attempted(each)
    assert CANARY not in stream.getvalue()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_for_each_attempt() -> None:
    """An attempt is one line with all its fields, and neither payload, headers nor response."""
    (line,) = logged("info", attempted(ok=False))
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "attempt",
        "level": "warning",
        "message_id": "msg_1",
        "endpoint_id": "ep_1",
        "app_id": "app_1",
        "event_type": "order.paid",
        "number": 1,
        "status": None,
        "trouble": "connect",
        "detail": "refused",
        "latency_ms": 500.0,
        "outcome": "failure",
        "delivery": "retry",
        "reason": "connect",
        "next_in": 30.0,
        "bytes": len(CANARY),
    }


@pytest.mark.parametrize(("level", "lines"), [("info", 2), ("warning", 1), ("error", 0)])
def test_levels(level: str, lines: int) -> None:
    """What went well is told at info, what failed at warning."""
    assert len(logged(level, attempted(ok=True), attempted(ok=False))) == lines


def test_an_operators_reason_is_no_label() -> None:
    """Free text never becomes a label: it would make a new time series for each thing that someone types."""
    metrics = Metrics()
    for reason, actor in ((CANARY, "alice"), (Order.RESET, "alice"), ("streak", "breaker")):
        metrics.changed(Transition("key", State.CLOSED, State.OPEN, 1, 0.0, reason, actor=actor))
    page = metrics.page(Readings(True, False, False, False, 0, 0, None)).decode()
    assert CANARY not in page
    for reason in ("operator", "reset", "streak"):
        assert f'hookfuse_breaker_transitions_total{{after="open",reason="{reason}"}} 1.0' in page


class RecordingTracer(trace.NoOpTracer):
    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def start_span(self, name: str, *args: Any, **told: Any) -> trace.Span:
        self.spans.append({"name": name, **told})
        return trace.INVALID_SPAN


def test_a_span_for_each_attempt() -> None:
    """An attempt is one client span that began when the request did; no span holds a secret."""
    tracer = RecordingTracer()
    tell = attempt_spans(tracer)
    assert tell is not None
    tell(attempted(ok=True))
    (span,) = tracer.spans
    assert span["name"] == "hookfuse.attempt"
    assert span["attributes"]["hookfuse.message_id"] == "msg_1"
    assert span["attributes"]["http.response.status_code"] == 200
    assert CANARY not in str(span)
