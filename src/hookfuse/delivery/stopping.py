"""Stops the endpoints of breakers that were disabled for good.

Nothing is sent to them until someone starts them; their deliveries are stored all the same. Whoever sees a breaker
disable itself stops its endpoints at once. A process that dies in between leaves them enabled behind a breaker that
refuses every call, and nobody is told why; so `reconcile.py` looks for such endpoints.
"""

from __future__ import annotations

import logging
from typing import Final

from hookfuse.breakers import AsyncBreakers
from hookfuse.core.duty import Tenure
from hookfuse.core.endpoint import Stop
from hookfuse.core.history import BY_BREAKER, disabled_itself
from hookfuse.ports import DeliveryStore

_log = logging.getLogger("hookfuse.delivery")

_PAGE: Final = 500


async def stop_guarded(store: DeliveryStore, key: str, reason: str, tenure: Tenure | None) -> None:
    for guarded in await store.guarded_by(key):
        await store.stop_endpoint(guarded.endpoint_id, Stop.DISABLED, BY_BREAKER + reason, tenure=tenure)


async def stop_left_over(store: DeliveryStore, breakers: AsyncBreakers, tenure: Tenure | None) -> int:
    """Stop what whoever saw the breaker disable itself did not live to stop; returns how many endpoints."""
    count, after = 0, ""
    while found := await store.unstopped(after, _PAGE):
        glance = await breakers.glance({each.key for each in found})
        off = {seen.key: seen.reason for seen in glance.breakers if disabled_itself(seen)}
        for endpoint_id, key in found:
            if key in off:
                _log.warning("%s is stopped: its breaker disabled itself, and nobody had done it", endpoint_id)
                await store.stop_endpoint(endpoint_id, Stop.DISABLED, BY_BREAKER + off[key], tenure=tenure)
                count += 1
        after = found[-1].endpoint_id
    return count
