"""Asks for what is due, and gives back what a claim took whose answer never came.

If a connection is cut, or an answer takes too long, the database may have made the claim all the same. Nobody works on
what it took, and at the end of the lease that would come back as if a worker had died with it in hand. But we chose the
token of the claim, so what carries it can be given back, untouched, as soon as the database answers again.

That nothing carries it proves little: the server may not have come to it yet. So it is looked for again, at intervals
that grow with its age, until it is found or its lease would have ended. Only what is lost together with this process is
left to the rescue.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Sequence

from hookfuse.core.delivery import Claim, Claims
from hookfuse.errors import StoreError
from hookfuse.ports import Lanes

_log = logging.getLogger("hookfuse.delivery")

_SOON = 0.25


class Claimer:
    """One claim at a time. `lease` is in seconds."""

    def __init__(self, store: Lanes, lease: float) -> None:
        self._store = store
        self._lease = lease
        self._asking: asyncio.Task[Claims] | None = None
        self._unanswered: dict[int, float] = {}
        """Tokens of claims that may have been made, and when they were asked for."""
        self._look_at = 0.0
        self._looking: asyncio.Task[bool] | None = None

    @property
    def unanswered(self) -> int:
        """Claims that may have been made without our hearing of it."""
        return len(self._unanswered)

    async def claim(self, limit: int, failing_limit: int) -> Claims:
        """What is due. If the caller is cancelled, the claim goes on, and `late` has what it brings."""
        self._asking = asyncio.create_task(self._ask(limit, failing_limit), name="hookfuse-claim")
        claims = await asyncio.shield(self._asking)
        self._asking = None
        return claims

    async def late(self, patience: float) -> Sequence[Claim]:
        """What a claim brought that nobody waited for, if it is answered within so many seconds."""
        asking, self._asking = self._asking, None
        if asking is None:
            return ()
        await asyncio.wait([asking], timeout=patience)
        asking.cancel()
        (answer,) = await asyncio.gather(asking, return_exceptions=True)
        return answer.claims if isinstance(answer, Claims) else ()

    async def last_look(self) -> None:
        """Look for what was not answered once more, as soon as the database does."""
        if self._looking is not None:
            # If our time is over, its is too.
            await self._looking
        answered = False
        while self._unanswered and not answered:
            answered = await self._look()
            if not answered:
                await asyncio.sleep(_SOON)

    async def _ask(self, limit: int, failing_limit: int) -> Claims:
        token, asked_at = secrets.randbits(62), time.monotonic()
        try:
            claims = await self._store.claim(
                limit, lease_ms=int(self._lease * 1000), failing_limit=failing_limit, token=token
            )
        except BaseException:
            self._unanswered[token] = asked_at
            self._look_at = 0.0
            raise
        # The database answers, so this is the time to ask; what was claimed does not wait for it.
        if self._unanswered and self._looking is None and time.monotonic() >= self._look_at:
            self._looking = asyncio.create_task(self._look(), name="hookfuse-disclaim")
        return claims

    async def _look(self) -> bool:
        """Give back what is found of unanswered claims; false: the database is away."""
        try:
            found = await self._store.disclaim(list(self._unanswered))
        except StoreError as error:
            _log.warning("giving back what a lost claim took waits for the database: %s", error)
            return False
        else:
            for token, count in found.items():
                _log.warning("the answer to a claim was lost; the %d deliveries that it took are given back", count)
                del self._unanswered[token]
            return True
        finally:
            self._looking = None
            self._look_again()

    def _look_again(self) -> None:
        now = time.monotonic()
        self._unanswered = {token: at for token, at in self._unanswered.items() if now - at < self._lease}
        self._look_at = now + max(_SOON, now - max(self._unanswered.values(), default=now))
