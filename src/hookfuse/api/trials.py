"""Trying an endpoint by hand, above all one that is disabled."""

from __future__ import annotations

import msgspec

from hookfuse.api.call import Call
from hookfuse.api.problems import not_found
from hookfuse.api.routes import Routes
from hookfuse.api.wire import Wire
from hookfuse.core.endpoint import Offer

routes = Routes("Endpoints")

_PAYLOAD = msgspec.json.encode({"type": "hookfuse.test", "data": {}})


class TrialOut(Wire):
    ok: bool
    """Whether it answered with 2xx."""
    status: int | None
    trouble: str
    """Why there is no whole answer; empty if there is one."""
    latency: float
    reenable_offered: Offer | None
    """Why it may be enabled again; null: it is enabled, or did not answer as it should."""


@routes.post("/app/{app_id}/endpoint/{endpoint_id}/test")
async def send_test_message(call: Call) -> TrialOut:
    """Send a signed test message now, also to a disabled endpoint. It is not stored and counts for no breaker."""
    endpoint = await call.endpoint()
    result = await call.parts.trial.send(endpoint.id, _PAYLOAD)
    offered = None
    if result.succeeded and not endpoint.enabled:
        offered = Offer.TEST_SUCCEEDED
        if await call.parts.store.change_endpoint(endpoint.id, {"offer": offered}) is None:
            raise not_found("endpoint")
    return TrialOut(
        ok=result.succeeded,
        status=result.status,
        trouble="" if result.trouble is None else result.trouble.value,
        latency=result.latency,
        reenable_offered=offered,
    )
