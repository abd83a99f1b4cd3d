"""One OpenTelemetry span for each attempt, where the API is installed and someone set up a provider."""

from __future__ import annotations

import time
from collections.abc import Callable

from hookfuse.delivery.courier import Attempted

try:
    from opentelemetry import trace
except ModuleNotFoundError:  # an optional extra
    trace = None  # type: ignore[assignment]


def attempt_spans(tracer: trace.Tracer | None = None) -> Callable[[Attempted], None] | None:
    """What is to be called after each attempt; None: nobody would see its spans."""
    if trace is None:
        return None
    tracer = tracer or trace.get_tracer("hookfuse")

    def attempted(attempted: Attempted) -> None:
        claim, result, verdict = attempted.claim, attempted.result, attempted.verdict
        end = time.time_ns()
        span = tracer.start_span(
            "hookfuse.attempt",
            kind=trace.SpanKind.CLIENT,
            start_time=end - int(result.latency * 1e9),
            attributes={
                "hookfuse.message_id": claim.message_id,
                "hookfuse.endpoint_id": claim.endpoint_id,
                "hookfuse.app_id": claim.app_id,
                "hookfuse.attempt": claim.attempts + 1,
                "hookfuse.outcome": verdict.outcome.kind.value,
                "hookfuse.reason": verdict.reason,
                "http.response.status_code": result.status or 0,
            },
        )
        if not result.succeeded:
            span.set_status(trace.StatusCode.ERROR, verdict.reason)
        span.end(end)

    return attempted
