"""When deliveries go next, by what their endpoints and breakers say now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hookfuse.api.call import Call
from hookfuse.core.delivery import Delivery, Place
from hookfuse.core.endpoint import Endpoint
from hookfuse.core.next_step import NextStep, next_step
from hookfuse.core.state import Snapshot
from hookfuse.errors import StoreError


async def next_steps(
    call: Call, deliveries: Sequence[Delivery], endpoints: Iterable[Endpoint]
) -> Mapping[Place, NextStep]:
    """The endpoints are those of the deliveries."""
    known = {each.id: each for each in endpoints}
    waiting = {each.endpoint_id for each in deliveries if each.due_ms is not None}
    breakers = await _sick(call, {known[id_].key for id_ in waiting if id_ in known})

    def step(delivery: Delivery) -> NextStep:
        endpoint = known.get(delivery.endpoint_id)
        if endpoint is None:
            return NextStep(delivery.due_ms)
        return next_step(delivery.due_ms, endpoint.stop, breakers.get(endpoint.key))

    return {Place(each.message_id, each.endpoint_id): step(each) for each in deliveries}


async def _sick(call: Call, keys: Iterable[str]) -> dict[str, Snapshot]:
    """What this process knows to be closed, it need not ask for."""
    breakers = call.parts.breakers
    asked = [key for key in keys if breakers.heard(key) is None]
    try:
        return {each.key: each for each in (await breakers.glance(asked)).breakers} if asked else {}
    except StoreError:
        # Readiness tells that they are away.
        return {}
