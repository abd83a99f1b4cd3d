"""Bringing an endpoint up to date after an outage, and how it is doing."""

from __future__ import annotations

import time
from datetime import datetime

from hookfuse.api.call import Call
from hookfuse.api.problems import invalid
from hookfuse.api.routes import Routes
from hookfuse.api.task_routes import BackgroundTaskOut, background_told
from hookfuse.api.wire import Instant, Wire, in_ms
from hookfuse.core.delivery import Chosen, DeliveryState
from hookfuse.core.lanes import DAY_MS
from hookfuse.core.paging import Mark, Span
from hookfuse.core.record import TaskKind

routes = Routes("Endpoints")

_DEFAULT_DAYS = 28


class SinceIn(Wire):
    """A time: from `since` on, up to `until` or now."""

    since: Instant
    until: Instant | None = None


class SinceQuery(Wire, rename=None):
    since: Instant
    until: Instant | None = None


class RecoverableOut(Wire):
    """Deliveries of messages that were accepted in this time."""

    failed: int
    held: int
    """Those that wait."""
    total: int


class StatsQuery(Wire, rename=None):
    since: Instant | None = None
    until: Instant | None = None


class EndpointStatsOut(Wire):
    """Deliveries by state, of messages that were accepted in this time."""

    success: int
    pending: int
    sending: int
    fail: int
    canceled: int


class AttemptStatsOut(Wire):
    success: int
    fail: int
    canceled: int


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/recover")
async def count_recoverable(call: Call, query: SinceQuery) -> RecoverableOut:
    """Count what `recover` would send again, before it is asked to."""
    endpoint = await call.endpoint()
    span = _range(query.since, query.until, where="query")
    counts = await call.parts.store.delivery_counts(call.app.id, endpoint.id, *span)
    return RecoverableOut(failed=counts.failed, held=counts.pending, total=counts.failed + counts.pending)


@routes.post("/app/{app_id}/endpoint/{endpoint_id}/recover", status=202)
async def recover_endpoint(call: Call, body: SinceIn) -> BackgroundTaskOut:
    """Send again all that failed at this endpoint in a time, and at once what was held.

    It goes as fast as the endpoint takes it: a lane that failed begins with one request at a time, and a breaker that
    has just closed lets the flow grow over its ramp. A disabled endpoint gets it once it is enabled.
    """
    endpoint = await call.endpoint()
    since_ms, until_ms = _range(body.since, body.until)
    states = (DeliveryState.FAILED, DeliveryState.PENDING)
    chosen = Chosen(call.app.id, endpoint.id, states, since_ms=since_ms, until_ms=until_ms)
    total = await call.parts.store.count(chosen)
    return background_told(await call.parts.tasks.retry(TaskKind.RECOVER, chosen, endpoint.id, total))


@routes.post("/app/{app_id}/endpoint/{endpoint_id}/replay-missing", status=202)
async def replay_missing(call: Call, body: SinceIn) -> BackgroundTaskOut:
    """Send messages of a time that this endpoint would get today and never got."""
    endpoint = await call.endpoint()
    since_ms, until_ms = _range(body.since, body.until)
    span = Span(after=Mark(since_ms, ""), before=Mark(until_ms, ""))
    return background_told(await call.parts.tasks.replay_missing(call.app.id, endpoint.id, span))


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/stats")
async def get_endpoint_stats(call: Call, query: StatsQuery) -> EndpointStatsOut:
    """Count the deliveries of an endpoint by state; of the last 28 days unless another time is named."""
    endpoint = await call.endpoint()
    since_ms, until_ms = _range(query.since, query.until, where="query")
    counts = await call.parts.store.delivery_counts(call.app.id, endpoint.id, since_ms, until_ms)
    return EndpointStatsOut(
        success=counts.sent,
        pending=counts.pending,
        sending=counts.sending,
        fail=counts.failed,
        canceled=counts.cancelled,
    )


@routes.get("/app/{app_id}/endpoint/{endpoint_id}/attempt-stats")
async def get_endpoint_attempt_stats(call: Call, query: StatsQuery) -> AttemptStatsOut:
    """Count the attempts at an endpoint by success."""
    endpoint = await call.endpoint()
    counts = await call.parts.store.attempt_counts(endpoint.id, *_range(query.since, query.until, where="query"))
    return AttemptStatsOut(success=counts.succeeded, fail=counts.failed, canceled=0)


def _range(since: datetime | None, until: datetime | None, where: str = "body") -> tuple[int, int]:
    now_ms = int(time.time() * 1000)
    until_ms = now_ms + DAY_MS if until is None else in_ms(until)
    since_ms = now_ms - _DEFAULT_DAYS * DAY_MS if since is None else in_ms(since)
    if since is not None and until is not None and since_ms > until_ms:
        raise invalid("It must not be before `since`.", where, "until")
    return since_ms, until_ms
