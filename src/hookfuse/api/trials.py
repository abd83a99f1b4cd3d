"""Trying an endpoint by hand, above all one that is disabled."""

from __future__ import annotations

import msgspec

from hookfuse.api.call import Call
from hookfuse.api.problems import not_found
from hookfuse.api.routes import Routes
from hookfuse.api.wire import Wire
from hookfuse.core.endpoint import Endpoint, Offer
from hookfuse.core.history import disabled_itself
from hookfuse.errors import StoreUnavailable

routes = Routes("Endpoints")

_PAYLOAD = msgspec.json.encode({"type": "hookfuse.test", "data": {}})


class TrialOut(Wire):
    ok: bool
    """Whether it answered with 2xx."""
    status: int | None
    trouble: str
    """Why there is no whole answer; empty if there is one."""
    detail: str
    """The same for people."""
    latency: float
    reenable_offered: Offer | None
    """Why it, or its breaker, may be enabled again; null: both are, or it did not answer as it should."""


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
    elif result.succeeded and await _waits(call, endpoint):
        offered = Offer.TEST_SUCCEEDED
    return TrialOut(
        ok=result.succeeded,
        status=result.status,
        trouble="" if result.trouble is None else result.trouble.value,
        detail=result.detail,
        latency=result.latency,
        reenable_offered=offered,
    )


async def _waits(call: Call, endpoint: Endpoint) -> bool:
    """Whether its breaker has disabled itself for a time."""
    try:
        return disabled_itself(await call.parts.breakers.inspect(endpoint.key))
    except StoreUnavailable:
        # Whether it was reached is what was asked.
        return False
