"""Forgets what is older than it has to be, in small batches, so that nobody waits for it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator

from hookfuse.core.duty import Tenure
from hookfuse.errors import StoreError
from hookfuse.ports import DeliveryStore

_log = logging.getLogger("hookfuse.app")

_BATCH = 1_000
_PAUSE = 0.05
_EVERY = 3_600.0
_DAY = 86_400.0


async def prunable(store: DeliveryStore, days: float) -> int:
    """How many messages are older than so many days; those with an open delivery are among them, and stay."""
    return await store.older(_before(days))


def _before(days: float) -> int:
    return int((time.time() - days * _DAY) * 1000)


async def prune(store: DeliveryStore, days: float, tenure: Tenure | None = None) -> AsyncIterator[int]:
    """Forget messages older than so many days that have no open delivery; yields how many are gone so far.

    Transitions and notices of that age go with them.
    """
    older_than_ms = _before(days)
    gone = 0
    while batch := await store.prune(older_than_ms=older_than_ms, limit=_BATCH, tenure=tenure):
        gone += batch
        yield gone
        await asyncio.sleep(_PAUSE)
    history = 0
    while batch := await store.prune_history(older_than_ms=older_than_ms, limit=_BATCH, tenure=tenure):
        history += batch
        await asyncio.sleep(_PAUSE)
    if history:
        _log.info("%d transitions and notices older than %g days were forgotten", history, days)


async def keep_pruning(store: DeliveryStore, days: float, tenure: Tenure) -> None:
    """Once an hour, for as long as the duty is held."""
    while True:
        try:
            counts = [gone async for gone in prune(store, days, tenure)]
            if counts:
                _log.info("%d messages older than %g days were forgotten", counts[-1], days)
        except StoreError as error:
            _log.warning("forgetting old messages waits for the database: %s", error)
        await asyncio.sleep(_EVERY)
