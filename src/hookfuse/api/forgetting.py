"""What was deleted takes its breakers along."""

from __future__ import annotations

import logging

from hookfuse.api.call import Call
from hookfuse.delivery.forgetting import forget_breakers
from hookfuse.errors import StoreError

_log = logging.getLogger("hookfuse.api")


async def forget_breakers_of(call: Call, prefix: str) -> None:
    """Close those whose keys begin with this and that guard nobody any more."""
    parts = call.parts
    try:
        listed = [each.key async for each in parts.breakers.unhealthy() if each.key.startswith(prefix)]
        await forget_breakers(parts.store, parts.breakers, listed, actor=call.key.id)
    except StoreError as error:
        # It is deleted all the same; whoever leads finds its breakers.
        _log.warning("the breakers of %s are closed later: %s", prefix, error)
