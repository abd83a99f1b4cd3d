"""Stops the endpoints of a breaker that was disabled for good."""

from __future__ import annotations

from hookfuse.core.endpoint import Stop
from hookfuse.ports import DeliveryStore


async def stop_guarded(store: DeliveryStore, key: str, reason: str) -> None:
    """Nothing is sent to them until someone starts them; their deliveries are stored all the same."""
    for guarded in await store.guarded_by(key):
        await store.stop_endpoint(guarded.endpoint_id, Stop.DISABLED, reason)
